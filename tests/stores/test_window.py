"""The window store: bounds of searches, lateness, duplicates, and what a refused put leaves behind."""

from __future__ import annotations

from typing import Any

import pytest

from storekeeper.errors import InvalidTimestampError, NullKeyError, SerializationError, StoreClosedError
from storekeeper.serdes.keys.windows import MAX_SEQUENCE, MAX_TIMESTAMP_MS, window_row_key
from storekeeper.stores.stream_time import STREAM_TIME_KEY, StoreStreamTime
from storekeeper.stores.window import WindowStore
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.store import StoreKind
from tests.stores.task_store import TaskStore, store_spec

Windows = WindowStore[str, str]


def task(*, retain_duplicates: bool = False) -> TaskStore:
    spec = store_spec(StoreKind.WINDOW, window_size_ms=10, retention_ms=100, retain_duplicates=retain_duplicates)
    return TaskStore(spec)


def opened(*, retain_duplicates: bool = False) -> Windows:
    windows: Windows = task(retain_duplicates=retain_duplicates).store
    return windows


@pytest.fixture
def store() -> Windows:
    windows = opened()
    for start_ms in (10, 20, 30):
        windows.put("a", f"a{start_ms}", start_ms)
        windows.put("b", f"b{start_ms}", start_ms)
    return windows


def saved(store: Windows) -> StoreStreamTime:
    return StoreStreamTime(100, store.layers.top.metadata(STREAM_TIME_KEY))


def test_both_ends_of_times_are_included(store: Windows) -> None:
    assert [start_ms for start_ms, _ in store.fetch("a", 10, 20)] == [10, 20]
    assert [start_ms for start_ms, _ in store.backward_fetch("a", 11, 30)] == [30, 20]
    assert [start_ms for start_ms, _ in store.fetch("a", -5, MAX_TIMESTAMP_MS + 5)] == [10, 20, 30]
    assert [start_ms for start_ms, _ in store.fetch("a", 21, 29)] == []
    assert [start_ms for start_ms, _ in store.fetch("a", 30, 10)] == []
    assert [start_ms for start_ms, _ in store.fetch("a", -5, -1)] == []
    assert [start_ms for start_ms, _ in store.fetch("absent", 0, 100)] == []


def test_both_ends_of_keys_are_included_and_none_leaves_one_open(store: Windows) -> None:
    store.put("ab", "ab", 20)
    found = [(key.key, key.start_ms) for key, _ in store.fetch_range("a", "ab", 20, 30)]
    assert found == [("a", 20), ("a", 30), ("ab", 20)]
    assert [key.key for key, _ in store.fetch_range("ab", None, 20, 20)] == ["ab", "b"]
    assert [key.key for key, _ in store.backward_fetch_range(None, "ab", 20, 20)] == ["ab", "a"]
    assert list(store.fetch_range("b", "a", 0, 100)) == []
    assert [key.key for key, _ in store.backward_fetch_all(30, 30)] == ["b", "a"]


def test_one_window(store: Windows) -> None:
    assert [store.fetch_one("a", start_ms) for start_ms in (20, 21, -1, 1 << 70)] == ["a20", None, None, None]
    store.put("a", None, 20)
    assert store.fetch_one("a", 20) is None
    assert [start_ms for start_ms, _ in store.fetch("a", 0, 100)] == [10, 30]


def test_expired_windows_are_never_seen_and_late_puts_are_counted(store: Windows) -> None:
    store.put("c", "c", 120)
    assert [(key.key, key.start_ms) for key, _ in store.all()] == [("a", 30), ("b", 30), ("c", 120)]
    assert [key.start_ms for key, _ in store.backward_all()] == [120, 30, 30]
    assert (store.fetch_one("a", 20), store.fetch_one("a", 30)) == (None, "a30")
    assert list(store.fetch("a", 0, 20)) == []
    store.put("late", "x", 20)
    store.put("in time", "x", 21)
    assert (store.fetch_one("late", 20), store.fetch_one("in time", 21)) == (None, "x")
    assert store.stream_time.dropped_total == 1


def test_a_window_ends_behind_its_last_millisecond_or_with_time() -> None:
    store = opened()
    store.put("a", "1", 5)
    assert list(store.all()) == [(Windowed("a", 5, 15), "1")]
    store.put("a", "1", MAX_TIMESTAMP_MS - 3)
    assert list(store.all()) == [(Windowed("a", MAX_TIMESTAMP_MS - 3, MAX_TIMESTAMP_MS), "1")]
    assert store.window_size_ms == 10


def test_duplicates_stay_beside_each_other_in_the_order_of_their_puts() -> None:
    store = opened(retain_duplicates=True)
    for value in ("2", "1", "1"):
        store.put("a", value, 5)
    assert list(store.fetch("a", 5, 5)) == [(5, "2"), (5, "1"), (5, "1")]
    assert store.fetch_one("a", 5) == "1"


def test_none_does_nothing_in_a_store_with_duplicates() -> None:
    store = opened(retain_duplicates=True)
    store.put("a", "1", 5)
    store.put("a", None, 5)
    store.put("a", None, 5000)
    assert (list(store.fetch("a", 0, 10)), store.stream_time.observed_ms) == ([(5, "1")], 5)


def test_the_sequence_of_duplicates_is_saved_also_where_it_starts_again() -> None:
    store = opened(retain_duplicates=True)
    store.put("a", "1", 5)
    store.stream_time.sequence = MAX_SEQUENCE - 1
    for sequence in (MAX_SEQUENCE, 0, 1):
        store.put("a", "2", 5)
        assert saved(store).sequence == sequence


@pytest.mark.parametrize("start_ms", [-1, 1 << 63, 1.5, None])
def test_a_put_at_a_wrong_time_moves_nothing(store: Windows, start_ms: Any) -> None:
    with pytest.raises(InvalidTimestampError):
        store.put("a", "1", start_ms)
    assert store.stream_time.observed_ms == 30


def test_a_put_that_its_serde_refuses_moves_nothing(store: Windows) -> None:
    wrong: Any = 5
    for key, value in (("a", wrong), (wrong, "1")):
        with pytest.raises(SerializationError):
            store.put(key, value, 5000)
    assert (store.stream_time.observed_ms, store.fetch_one("a", 10)) == (30, "a10")


def test_none_is_no_key(store: Windows) -> None:
    none: Any = None
    for call in (lambda: store.put(none, "1", 5), lambda: store.fetch_one(none, 5), lambda: store.fetch(none, 0, 5)):
        with pytest.raises(NullKeyError):
            call()


def test_everything_raises_after_close(store: Windows) -> None:
    store.close()
    calls = [
        lambda: store.fetch_one("a", 20),
        lambda: store.fetch("a", 0, 5),
        lambda: store.fetch("a", 5, 0),
        store.all,
    ]
    for call in calls:
        with pytest.raises(StoreClosedError):
            call()


def test_a_restore_rebuilds_stream_time_and_sequence_from_keys() -> None:
    store = opened(retain_duplicates=True)
    store.restore_batch([(window_row_key(b"a", 40, 7), b"1"), (window_row_key(b"a", 30, 9), b"2")], {b"m": b"x"})
    assert (store.stream_time.observed_ms, store.stream_time.sequence) == (40, 9)
    assert (saved(store).observed_ms, saved(store).sequence) == (40, 9)
    assert list(store.fetch("a", 0, 100)) == [(30, "2"), (40, "1")]
    assert store.layers.top.metadata(b"m") == b"x"
    store.restore_batch([(window_row_key(b"a", 20, 1), b"3")])
    assert (store.stream_time.observed_ms, store.stream_time.sequence) == (40, 9)


def test_what_a_restore_writes_is_not_logged_again() -> None:
    windows = task()
    windows.restore([(window_row_key(b"a", 40), b"1")])
    windows.end_batch()
    assert (windows.log, windows.store.fetch_one("a", 40)) == ([], "1")
