"""The store with a time to live: how long rows live, what a sweep may take, and what a refused put leaves behind."""

from __future__ import annotations

from typing import Any

import pytest

from storekeeper.errors import (
    ConfigurationError,
    InvalidArgumentError,
    InvalidTimestampError,
    NullKeyError,
    SerializationError,
    StoreClosedError,
)
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.serdes.serde import Utf8Serde
from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.changelog_writer import InMemoryChangelog
from storekeeper.stores.expiry_index import stamped
from storekeeper.stores.stream_time import STREAM_TIME_KEY, StoreStreamTime
from storekeeper.stores.ttl import TtlKeyValueStore

UTF8 = Utf8Serde()
Ttl = TtlKeyValueStore[str, str]


def opened(builder: StoreBuilder | None = None, ttl_ms: int | None = 100) -> Ttl:
    return (builder or StoreBuilder("ttl")).ttl_key_value(UTF8, UTF8, ttl_ms=ttl_ms)


def saved_ms(store: Ttl) -> int:
    return StoreStreamTime(0, store.layers.backend.metadata(STREAM_TIME_KEY)).observed_ms


def test_a_row_is_visible_for_its_ttl_and_not_a_millisecond_longer() -> None:
    store = opened()
    store.put("a", "1", 1000)
    store.observe(1099)
    assert (store.get("a"), store.get_many(["a", "x"]), list(store.all())) == ("1", ["1", None], [("a", "1")])
    store.observe(1100)
    assert (store.get("a"), store.get_many(["a", "x"]), list(store.all())) == (None, [None, None], [])


def test_reading_and_late_puts_move_no_time() -> None:
    store = opened()
    store.put("a", "1", 1000)
    store.put("b", "1", 950)
    store.observe(900)
    assert (store.get("a"), store.stream_time.observed_ms, saved_ms(store)) == ("1", 1000, 1000)
    store.observe(1050)
    assert (store.get("a"), store.get("b"), saved_ms(store)) == ("1", None, 1050)


def test_a_put_begins_a_new_life_with_a_ttl_of_its_own() -> None:
    store = opened()
    store.put("a", "1", 1000)
    store.put("a", "2", 1050, ttl_ms=500)
    store.put("b", "1", 1050, ttl_ms=1)
    store.observe(1549)
    assert (store.get("a"), store.get("b")) == ("2", None)
    store.observe(1550)
    assert store.get("a") is None


def test_without_a_ttl_rows_stay() -> None:
    store = opened(ttl_ms=None)
    store.put("stays", "1", 0)
    store.put("goes", "1", 0, ttl_ms=5)
    store.put("beyond time", "1", 10, ttl_ms=MAX_TIMESTAMP_MS)
    store.observe(MAX_TIMESTAMP_MS - 1)
    assert [key for key, _ in store.all()] == ["beyond time", "stays"]
    assert (store.sweep(), store.sweep()) == (1, 0)


def test_none_deletes_and_a_deletion_returns_only_what_was_visible() -> None:
    store = opened()
    for key in ("a", "b", "c"):
        store.put(key, key, 1000)
    store.put("a", None, 1000)
    assert (store.get("a"), store.delete("b"), store.delete("b")) == (None, "b", None)
    store.observe(2000)
    assert store.delete("c") is None
    assert store.sweep() == 0


def test_both_ends_of_ranges_are_included_and_expired_rows_left_out() -> None:
    store = opened()
    for key in ("a", "b", "ba", "c"):
        store.put(key, key, 1000)
    store.put("b", "b", 500)
    assert [key for key, _ in store.range("a", "ba")] == ["a", "ba"]
    assert [key for key, _ in store.reverse_range("b", None)] == ["c", "ba"]
    assert [key for key, _ in store.range("c", "a")] == []
    assert [key for key, _ in store.prefix_scan("b")] == ["ba"]
    assert [key for key, _ in store.prefix_scan(1, lambda number: b"abc"[number : number + 1])] == ["ba"]
    assert [key for key, _ in store.reverse_all()] == ["c", "ba", "a"]


def test_a_sweep_takes_the_longest_expired_first_and_logs_it() -> None:
    log = InMemoryChangelog()
    store = opened(StoreBuilder("ttl").with_logging(log))
    for key, timestamp_ms in (("c", 1000), ("b", 1001), ("a", 1002), ("live", 1102)):
        store.put(key, "1", timestamp_ms)
    log.records.clear()
    assert [store.sweep(limit=limit) for limit in (0, 2, 2)] == [0, 2, 1]
    assert [(record.key, record.value) for record in log.records] == [(b"c", None), (b"b", None), (b"a", None)]
    assert store.layers.expiry_index is not None
    assert (store.layers.expiry_index.index_size(), store.get("live")) == (1, "1")


def test_a_row_that_was_written_again_and_waits_in_the_cache_survives_a_sweep() -> None:
    log = InMemoryChangelog()
    store = opened(StoreBuilder("ttl").with_logging(log).with_caching())
    store.put("a", "old", 1000)
    store.flush()
    store.put("a", "new", 1100)
    assert (store.sweep(), store.get("a")) == (1, "new")
    store.flush()
    assert store.get("a") == "new"
    assert [record.value is None for record in log.records] == [False, True, False]


def test_a_restore_rebuilds_stream_time_and_the_index_from_stamps() -> None:
    store = opened()
    store.restore_batch([(b"a", stamped(b"1", 1100, 1000)), (b"b", stamped(b"1", 1160, 1060)), (b"c", None)])
    assert (store.stream_time.observed_ms, saved_ms(store)) == (1060, 1060)
    store.restore_batch([(b"d", stamped(b"1", 1150, 1050))])
    assert store.stream_time.observed_ms == 1060
    store.observe(1100)
    assert ([key for key, _ in store.all()], store.sweep()) == (["b", "d"], 1)


@pytest.mark.parametrize("ttl_ms", [0, -1, -5000])
def test_a_ttl_below_one_is_refused(ttl_ms: int) -> None:
    store = opened()
    with pytest.raises(InvalidArgumentError):
        store.put("a", "1", 1000, ttl_ms=ttl_ms)
    assert (store.get("a"), store.stream_time.observed_ms) == (None, -1)
    with pytest.raises(ConfigurationError):
        opened(ttl_ms=ttl_ms)


def test_a_put_that_is_refused_moves_nothing() -> None:
    store = opened()
    store.put("a", "1", 1000)
    wrong: Any = 5.5
    for timestamp_ms in (-1, 1 << 63, wrong):
        with pytest.raises(InvalidTimestampError):
            store.put("a", "1", timestamp_ms)
        with pytest.raises(InvalidTimestampError):
            store.observe(timestamp_ms)
    for key, value in (("a", wrong), (wrong, "1")):
        with pytest.raises(SerializationError):
            store.put(key, value, 9000)
    assert (store.get("a"), store.stream_time.observed_ms) == ("1", 1000)


def test_none_is_no_key() -> None:
    store, none = opened(), None
    key: Any = none
    for call in (
        lambda: store.put(key, "1", 1),
        lambda: store.get(key),
        lambda: store.get_many(["a", key]),
        lambda: store.delete(key),
        lambda: store.prefix_scan(key),
    ):
        with pytest.raises(NullKeyError):
            call()


def test_everything_raises_after_close() -> None:
    store = opened()
    store.put("a", "1", 1000)
    store.close()
    for call in (
        lambda: store.get("a"),
        lambda: store.put("a", "1", 1),
        store.all,
        store.sweep,
        lambda: store.get_many(["a"]),
    ):
        with pytest.raises(StoreClosedError):
            call()
