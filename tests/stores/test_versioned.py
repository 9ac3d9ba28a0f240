"""The versioned store: a history is what `get` finds at its times, whatever order the versions came in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import InvalidTimestampError, NullKeyError, SerializationError, StoreClosedError
from storekeeper.serdes.keys.versions import decode_version_row_key, version_row_key
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.stores.stream_time import STREAM_TIME_KEY, StoreStreamTime
from storekeeper.stores.versioned import NOT_PUT_MS, VersionedKeyValueStore, VersionedRecord
from storekeeper.topology.store import StoreKind
from tests.stores.task_store import TaskStore, store_spec

Versions = VersionedKeyValueStore[str, str]
PUTS = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.sampled_from("xyz"), st.integers(0, 15)), max_size=12)


def task(history_retention_ms: int = 10) -> TaskStore:
    return TaskStore(store_spec(StoreKind.VERSIONED, retention_ms=history_retention_ms))


def opened(history_retention_ms: int = 10) -> Versions:
    versions: Versions = task(history_retention_ms).store
    return versions


def versions_on_disk(versions: TaskStore) -> list[tuple[str, int]]:
    with versions.below.scan(None, None) as rows:
        found = [decode_version_row_key(row_key) for row_key, _ in rows]
    return [(key.decode(), timestamp_ms) for key, timestamp_ms in found]


class Model:
    """All versions of a key, and the rules in the plainest form."""

    def __init__(self, retention_ms: int) -> None:
        self.retention_ms = retention_ms
        self.versions: dict[tuple[str, int], str | None] = {}
        self.now_ms = -1

    def put(self, key: str, value: str | None, timestamp_ms: int) -> int:
        if timestamp_ms < self.now_ms - self.retention_ms:
            return NOT_PUT_MS
        self.now_ms = max(self.now_ms, timestamp_ms)
        self.versions[key, timestamp_ms] = value
        return self.replaced_at_ms(key, timestamp_ms)

    def replaced_at_ms(self, key: str, timestamp_ms: int) -> int:
        return min((at for name, at in self.versions if name == key and at > timestamp_ms), default=-1)

    def get(self, key: str, as_of_ms: int) -> VersionedRecord[str] | None:
        valid_from_ms = max((at for name, at in self.versions if name == key and at <= as_of_ms), default=None)
        if valid_from_ms is None:
            return None
        value, replaced_at_ms = self.versions[key, valid_from_ms], self.replaced_at_ms(key, valid_from_ms)
        if value is None or (as_of_ms < self.now_ms - self.retention_ms and replaced_at_ms != -1):
            return None
        return VersionedRecord(value, valid_from_ms, replaced_at_ms)

    def reachable(self) -> list[tuple[str, int]]:
        horizon_ms = self.now_ms - self.retention_ms
        valid = {key: max((at for name, at in self.versions if name == key and at <= horizon_ms), default=-1)
                 for key in "ab"}  # fmt: skip
        kept = [(key, at) for (key, at), value in self.versions.items()
                if at > horizon_ms or (at == valid[key] and value is not None)]  # fmt: skip
        return sorted(kept, key=lambda version: (version[0], -version[1]))


@given(PUTS, st.integers(0, 30))
def test_every_time_shows_the_version_valid_then(puts: list[tuple[str, str | None, int]], retention_ms: int) -> None:
    store, model = opened(retention_ms), Model(retention_ms)
    for key, value, timestamp_ms in puts:
        assert store.put(key, value, timestamp_ms) == model.put(key, value, timestamp_ms)
    for key in ("a", "b"):
        assert store.get(key) == model.get(key, 1 << 40)
        for as_of_ms in range(-1, 32):
            assert store.get(key, as_of=as_of_ms) == model.get(key, as_of_ms)


@given(PUTS, st.integers(0, 30), st.integers(-3, 35), st.integers(-3, 35))
def test_a_history_is_what_get_finds_at_its_times(
    puts: list[tuple[str, str | None, int]], retention_ms: int, from_ms: int, to_ms: int
) -> None:
    store = opened(retention_ms)
    for key, value, timestamp_ms in puts:
        store.put(key, value, timestamp_ms)
    found = [store.get("a", as_of=at) for at in range(from_ms, to_ms + 1)]
    expected = sorted({record for record in found if record is not None}, key=lambda record: record.timestamp_ms)
    assert store.history("a", from_ms, to_ms) == expected


def test_a_history_ends_at_the_retention_even_where_older_versions_are_still_on_disk() -> None:
    store = opened()
    for timestamp_ms in (0, 20, 95):
        store.put("a", f"a{timestamp_ms}", timestamp_ms)
    store.put("b", "moves time", 100)
    assert store.history("a", 0, 89) == []
    assert store.history("a", 0, 90) == [("a20", 20, 95)]
    assert store.history("a", 0, 99) == [("a20", 20, 95), ("a95", 95, -1)]


def test_a_history_has_no_limits_of_its_own() -> None:
    store = opened()
    store.put("a", "0", 0)
    store.put("a", "end", MAX_TIMESTAMP_MS)
    assert store.history("a", -(1 << 70), -(1 << 69)) == []
    assert store.history("a", 0, 1 << 70) == [("0", 0, MAX_TIMESTAMP_MS), ("end", MAX_TIMESTAMP_MS, -1)]
    assert store.get("a", as_of=1 << 70) == ("end", MAX_TIMESTAMP_MS, -1)


def test_what_comes_too_late_is_counted_and_leaves_nothing() -> None:
    store = opened()
    store.put("a", "1", 100)
    assert (store.put("b", "late", 89), store.put("b", "in time", 90)) == (NOT_PUT_MS, -1)
    assert (store.get("b", as_of=95), store.stream_time.dropped_total) == (("in time", 90, -1), 1)


def test_a_deletion_returns_the_version_that_was_valid_then() -> None:
    store = opened(100)
    store.put("a", "1", 10)
    store.put("a", "3", 30)
    assert store.delete("a", 20) == ("1", 10, 30)
    assert (store.get("a", as_of=25), store.get("a")) == (None, ("3", 30, -1))
    assert store.delete("absent", 20) is None


def test_versions_that_no_query_reaches_leave_the_disk() -> None:
    versions = task()
    for timestamp_ms in (0, 5, 10, 15):
        versions.store.put("a", "v", timestamp_ms)
    versions.end_batch()
    assert len(versions_on_disk(versions)) == 4, "the index has the versions of earlier batches"
    versions.end_batch()
    assert versions_on_disk(versions) == [("a", 15), ("a", 10), ("a", 5)]


@given(PUTS, st.sets(st.integers(0, 11)), st.integers(0, 10))
def test_the_end_of_a_batch_deletes_what_no_query_reaches_and_changes_no_answer(
    puts: list[tuple[str, str | None, int]], ended_after: set[int], retention_ms: int
) -> None:
    versions, model = task(retention_ms), Model(retention_ms)
    store: Versions = versions.store
    for number, (key, value, timestamp_ms) in enumerate(puts):
        assert store.put(key, value, timestamp_ms) == model.put(key, value, timestamp_ms)
        if number in ended_after:
            versions.end_batch()
    for _ in range(2):
        versions.end_batch()
    for key in ("a", "b"):
        assert store.get(key) == model.get(key, 1 << 40)
        for as_of_ms in range(-1, 32):
            assert store.get(key, as_of=as_of_ms) == model.get(key, as_of_ms)
    assert versions_on_disk(versions) == model.reachable()


def test_versions_of_keys_that_are_not_written_any_more_go_a_bounded_number_at_a_time() -> None:
    versions = task()
    store: Versions = versions.store
    for number in range(3000):
        store.put(f"{number:04}", "v", 0)
        store.delete(f"{number:04}", 1)
    versions.end_batch()
    assert len(versions_on_disk(versions)) == 6000
    store.put("moves time", "v", 100)
    left = [6000]
    while left[-1] > 1:
        versions.end_batch()
        left.append(len(versions_on_disk(versions)))
    assert left == [6000, 3997, 1997, 1]
    last = {change.key: change.value for change in versions.log}
    assert sum(value is None for value in last.values()) == 6000


def test_stream_time_outlives_a_reopen_and_a_restore() -> None:
    store = opened()
    store.put("a", "1", 100)
    stored = StoreStreamTime(10, store.layers.top.metadata(STREAM_TIME_KEY))
    assert stored.observed_ms == 100
    restored = opened()
    restored.restore_batch([(version_row_key(b"a", 100), b"\x011"), (version_row_key(b"a", 95), b"\x00")])
    assert (restored.get("a"), restored.get("a", as_of=97)) == (("1", 100, -1), None)
    assert restored.put("b", "late", 89) == NOT_PUT_MS


def test_a_put_that_is_refused_moves_nothing() -> None:
    store = opened()
    store.put("a", "1", 100)
    wrong: Any = 5.5
    for timestamp_ms in (-1, 1 << 63, wrong):
        with pytest.raises(InvalidTimestampError):
            store.put("a", "1", timestamp_ms)
    for key, value in (("a", wrong), (wrong, "1")):
        with pytest.raises(SerializationError):
            store.put(key, value, 9000)
    assert (store.stream_time.observed_ms, store.get("a")) == (100, ("1", 100, -1))


def test_none_is_no_key_and_a_closed_store_answers_nothing() -> None:
    store = opened()
    none: Any = None
    for call in (
        lambda: store.put(none, "1", 1),
        lambda: store.delete(none, 1),
        lambda: store.get(none),
        lambda: store.history(none, 0, 1),
    ):
        with pytest.raises(NullKeyError):
            call()
    store.close()
    for closed in (lambda: store.get("a"), lambda: store.history("a", 0, 1)):
        with pytest.raises(StoreClosedError):
            closed()
