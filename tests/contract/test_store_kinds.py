"""What store kinds promise beyond the peers' cases, on every backend, as a task has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from storekeeper.errors import ConfigurationError, InvalidTimestampError, InvalidWindowError, NullKeyError
from storekeeper.serdes.json import JsonSerde
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.versioned import NOT_PUT_MS, VersionedKeyValueStore
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.store import StoreKind
from storekeeper.topology.topology_store import TopologyStore
from tests.conformance.backend import Backend
from tests.stores.task_store import TaskStore, store_spec

Build = Callable[[TopologyStore], TaskStore]


@pytest.fixture
def build(backend: Backend) -> Iterator[Build]:
    """Opens stores on the backend."""
    opened: list[TaskStore] = []

    def build(spec: TopologyStore) -> TaskStore:
        opened.append(TaskStore(spec, backend))
        return opened[-1]

    yield build
    for task in opened:
        task.close()


@pytest.fixture
def history(build: Build) -> TaskStore:
    return build(store_spec(StoreKind.VERSIONED, retention_ms=100))


@pytest.fixture
def versioned(history: TaskStore) -> VersionedKeyValueStore[str, str]:
    store: VersionedKeyValueStore[str, str] = history.store
    return store


def test_versions_take_their_place_by_time(versioned: VersionedKeyValueStore[str, str]) -> None:
    assert versioned.put("a", "one", 10) == -1
    assert versioned.put("a", "three", 30) == -1
    assert versioned.put("a", "two", 20) == 30
    assert versioned.put("aa", "other", 25) == -1
    assert versioned.get("a") == ("three", 30, -1)
    assert versioned.get("a", as_of=9) is None
    assert [versioned.get("a", as_of=at) for at in (10, 19)] == [("one", 10, 20)] * 2
    assert versioned.get("a", as_of=29) == ("two", 20, 30)
    assert versioned.get("a", as_of=10**15) == ("three", 30, -1)
    assert versioned.history("a", 15, 25) == [("one", 10, 20), ("two", 20, 30)]
    assert versioned.history("a", 30, 40) == [("three", 30, -1)]


def test_a_deletion_is_a_version(versioned: VersionedKeyValueStore[str, str]) -> None:
    versioned.put("a", "one", 10)
    assert versioned.delete("a", 20) == ("one", 10, -1)
    assert versioned.get("a") is None
    assert versioned.get("a", as_of=15) == ("one", 10, 20)
    versioned.put("a", "two", 30)
    assert versioned.get("a", as_of=25) is None
    assert versioned.history("a", 0, 100) == [("one", 10, 20), ("two", 30, -1)]


def test_history_ends_at_the_retention(history: TaskStore) -> None:
    versioned: VersionedKeyValueStore[str, str] = history.store
    versioned.put("a", "one", 10)
    versioned.put("a", "two", 50)
    versioned.put("old", "kept", 5)
    versioned.put("a", "three", 160)
    assert versioned.put("late", "x", 59) == NOT_PUT_MS
    assert versioned.put("late", "x", 60) == -1
    assert versioned.stream_time.dropped_total == 1
    assert versioned.get("a", as_of=59) is None
    assert versioned.get("a", as_of=60) == ("two", 50, 160)
    assert versioned.get("old", as_of=5) == ("kept", 5, -1)
    versioned.put("a", "four", 200)
    for _ in range(2):
        history.end_batch()
    with history.below.scan(None, None) as rows:
        kept = [data[1:] for key, data in rows if key.startswith(b"a")]
    assert kept == [b"four", b"three", b"two"]


def test_versions_survive_a_restore(history: TaskStore, build: Build) -> None:
    history.store.put("a", "one", 10)
    history.store.put("a", "two", 500)
    history.end_batch()
    restored = build(store_spec(StoreKind.VERSIONED, name="restored", retention_ms=100))
    restored.restore([(change.key, change.value) for change in history.log])
    assert restored.store.get("a") == ("two", 500, -1)
    assert restored.store.put("b", "late", 399) == NOT_PUT_MS


def test_expired_rows_are_invisible_at_once_and_go_with_the_batch(build: Build) -> None:
    task = build(store_spec(StoreKind.TTL, retention_ms=100))
    for number in range(5):
        task.store.put(f"k{number}", "v", 1000 + number)
    task.end_batch()
    task.store.put("moves time", "v", 1102)
    assert [key for key, _ in task.store.all()] == ["k3", "k4", "moves time"]
    assert [key for key, _ in task.store.reverse_range("k1", "k3")] == ["k3"]
    assert [key for key, _ in task.store.prefix_scan("k")] == ["k3", "k4"]
    assert task.store.get_many(["k0", "k4"]) == [None, "v"]
    task.end_batch()
    assert [change.key for change in task.log if change.value is None] == [b"k0", b"k1", b"k2"]
    assert task.store.delete("k3") == "v"
    with pytest.raises(NullKeyError):
        task.store.get(None)


def test_a_restore_rebuilds_expiry_and_stream_time(build: Build) -> None:
    task = build(store_spec(StoreKind.TTL, retention_ms=100))
    task.store.put("old", "v", 1000)
    task.end_batch()
    task.store.put("new", "v", 2000)
    task.end_batch()
    restored = TaskStore(store_spec(StoreKind.TTL, retention_ms=100), log=task.log)
    assert (dict(restored.store.all()), restored.store.stream_time.observed_ms) == ({"new": "v"}, 2000)


def test_a_batch_is_all_or_nothing(build: Build) -> None:
    task = build(store_spec())
    task.store.put("a", "1")
    task.end_batch()
    task.store.put("a", "2")
    task.store.put_all([("b", "2"), ("c", "2")])
    task.store.delete("c")
    assert (task.store.get("a"), [key for key, _ in task.store.all()]) == ("2", ["a", "b"])
    assert (task.backend.get(b"a"), task.backend.get(b"b")) == (b"1", None)
    task.end_batch()
    assert dict(task.store.all()) == {"a": "2", "b": "2"}
    task.store.put("a", "3")
    task.give_up()
    assert task.store.get("a") == "2"
    assert [change.value for change in task.log] == [b"1", b"2", b"2", None]


def test_a_batch_that_is_in_the_changelog_and_not_applied_is_read_from_there(build: Build) -> None:
    task = build(store_spec())
    task.store.put("a", "1")
    task.end_batch()
    task.log += [change._replace(value=b"2") for change in task.log]
    task.reopen()
    assert task.store.get("a") == "2"


def test_timestamped_values(build: Build) -> None:
    task = build(store_spec(values=JsonSerde(), timestamped=True))
    task.store.put("a", ValueAndTimestamp([1], 5))
    task.end_batch()
    task.reopen()
    assert task.store.get("a") == ValueAndTimestamp([1], 5)
    assert [(change.value, change.timestamp_ms) for change in task.log] == [(b"[1]", 5)]


def test_windows_know_their_end(build: Build) -> None:
    task = build(store_spec(StoreKind.WINDOW, window_size_ms=10, retention_ms=100))
    task.store.put("a", "1", 20)
    assert list(task.store.all()) == [(Windowed("a", 20, 30), "1")]


def test_duplicates_are_not_overwritten_after_a_reopen(build: Build) -> None:
    task = build(store_spec(StoreKind.WINDOW, window_size_ms=10, retention_ms=100, retain_duplicates=True))
    for value in ("1", "2"):
        task.store.put("a", value, 5)
        task.end_batch()
        task.reopen()
    assert (list(task.store.fetch("a", 0, 9)), task.store.fetch_one("a", 5)) == ([(5, "1"), (5, "2")], "2")


def test_expired_segments_leave_the_disk(build: Build) -> None:
    task = build(store_spec(StoreKind.WINDOW, window_size_ms=10, retention_ms=120_000))
    for start_ms in range(0, 600_000, 30_000):
        task.store.put("a", "1", start_ms)
        task.end_batch()
    with task.backend.scan(None, None) as rows:
        assert sum(1 for _ in rows) == 6
    assert [start_ms for start_ms, _ in task.store.fetch("a", 0, 10**9)] == [480_000, 510_000, 540_000, 570_000]


WRONG = [
    store_spec(StoreKind.WINDOW, window_size_ms=100, retention_ms=99),
    store_spec(StoreKind.WINDOW, window_size_ms=0, retention_ms=99),
    store_spec(StoreKind.SESSION, retention_ms=0),
    store_spec(StoreKind.TTL, retention_ms=0),
    store_spec(StoreKind.VERSIONED, retention_ms=-1),
]


@pytest.mark.parametrize("spec", WRONG)
def test_settings_that_can_not_work_are_refused(spec: TopologyStore) -> None:
    with pytest.raises(ConfigurationError):
        TaskStore(spec)


def test_wrong_times_are_refused() -> None:
    sessions = TaskStore(store_spec(StoreKind.SESSION, retention_ms=100)).store
    with pytest.raises(InvalidWindowError):
        sessions.put("a", 5, 4, "1")
    with pytest.raises(InvalidTimestampError):
        sessions.put("a", -1, 4, "1")
    with pytest.raises(InvalidTimestampError):
        TaskStore(store_spec(StoreKind.TTL, retention_ms=1)).store.put("a", "1", 1 << 63)
