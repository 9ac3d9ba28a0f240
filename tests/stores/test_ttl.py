"""The store with a time to live: how long rows live, when they go, and what a refused put leaves behind."""

from __future__ import annotations

from typing import Any

import pytest

from storekeeper.errors import (
    ConfigurationError,
    InvalidTimestampError,
    NullKeyError,
    SerializationError,
    StoreClosedError,
)
from storekeeper.stores.expiry_index import stamped
from storekeeper.stores.stream_time import STREAM_TIME_KEY, StoreStreamTime
from storekeeper.stores.ttl import TtlKeyValueStore
from storekeeper.topology.store import StoreKind
from tests.stores.task_store import TaskStore, store_spec

Ttl = TtlKeyValueStore[str, str]


def task(ttl_ms: int = 100) -> TaskStore:
    return TaskStore(store_spec(StoreKind.TTL, retention_ms=ttl_ms))


def opened(ttl_ms: int = 100) -> Ttl:
    rows: Ttl = task(ttl_ms).store
    return rows


def saved_ms(store: Ttl) -> int:
    return StoreStreamTime(0, store.layers.top.metadata(STREAM_TIME_KEY)).observed_ms


def test_a_row_is_visible_for_its_ttl_and_not_a_millisecond_longer() -> None:
    store = opened()
    store.put("a", "1", 1000)
    store.stream_time.observe(1099)
    assert (store.get("a"), store.get_many(["a", "x"]), list(store.all())) == ("1", ["1", None], [("a", "1")])
    store.stream_time.observe(1100)
    assert (store.get("a"), store.get_many(["a", "x"]), list(store.all())) == (None, [None, None], [])


def test_reading_and_late_puts_move_no_time() -> None:
    store = opened()
    store.put("a", "1", 1000)
    store.put("b", "1", 950)
    store.stream_time.observe(900)
    assert (store.get("a"), store.stream_time.observed_ms, saved_ms(store)) == ("1", 1000, 1000)
    store.stream_time.observe(1050)
    assert (store.get("a"), store.get("b")) == ("1", None)


def test_none_deletes_and_a_deletion_returns_only_what_was_visible() -> None:
    store = opened()
    for key in ("a", "b", "c"):
        store.put(key, key, 1000)
    store.put("a", None, 1000)
    assert (store.get("a"), store.delete("b"), store.delete("b")) == (None, "b", None)
    store.stream_time.observe(2000)
    assert store.delete("c") is None


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


def test_a_row_that_has_expired_when_it_is_put_goes_with_its_batch() -> None:
    rows = task()
    rows.store.put("moves time", "1", 2000)
    rows.store.put("late", "1", 1000)
    rows.end_batch()
    assert (rows.below.get(b"late"), rows.below.get(b"moves time") is None) == (None, False)
    assert [(change.key, change.value) for change in rows.log] == [(b"moves time", b"1"), (b"late", None)]
    assert rows.store.layers.expiry_index.index_size() == 1


def test_a_row_that_the_batch_has_refreshed_stays() -> None:
    rows = task()
    rows.store.put("a", "old", 1000)
    rows.end_batch()
    rows.store.put("a", "new", 1100)
    rows.end_batch()
    assert (rows.store.get("a"), [change.value for change in rows.log]) == ("new", [b"old", b"new"])


def test_a_restore_rebuilds_stream_time_and_the_index_from_stamps() -> None:
    store = opened()
    store.restore_batch([(b"a", stamped(b"1", 1100, 1000)), (b"b", stamped(b"1", 1160, 1060)), (b"c", None)])
    assert (store.stream_time.observed_ms, saved_ms(store)) == (1060, 1060)
    store.restore_batch([(b"d", stamped(b"1", 1150, 1050))])
    assert store.stream_time.observed_ms == 1060
    store.stream_time.observe(1100)
    assert [key for key, _ in store.all()] == ["b", "d"]


@pytest.mark.parametrize("ttl_ms", [0, -1, -5000])
def test_a_ttl_below_one_is_refused(ttl_ms: int) -> None:
    with pytest.raises(ConfigurationError):
        opened(ttl_ms=ttl_ms)


def test_a_put_that_is_refused_moves_nothing() -> None:
    store = opened()
    store.put("a", "1", 1000)
    wrong: Any = 5.5
    for timestamp_ms in (-1, 1 << 63, wrong):
        with pytest.raises(InvalidTimestampError):
            store.put("a", "1", timestamp_ms)
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
        store.all,
        lambda: store.get_many(["a"]),
    ):
        with pytest.raises(StoreClosedError):
            call()
