"""What a local store does before it is used. The broker is played: what is read from a real one is tried elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from storekeeper.apps.errors import LostChangelogError
from storekeeper.changelog.reader import TopicFacts
from storekeeper.clock import ManualClock
from storekeeper.engine import local_store
from storekeeper.engine.local_store import LocalStore
from storekeeper.engine.restore_progress import Restoring
from storekeeper.engine.store_backends import RocksDBBackend
from storekeeper.kafka.connection import Kafka
from storekeeper.serdes.serde import Utf8Serde
from storekeeper.stores.unwanted import is_unwanted, mark_unwanted
from storekeeper.topology.store import Store, StoreKind
from storekeeper.topology.topology_store import TopologyStore

SPEC = TopologyStore("totals", StoreKind.KEY_VALUE, Utf8Serde(), Utf8Serde(), Store("totals"), timestamped=True)
LOG = TopicFacts("app-totals-changelog", "AAA", 2, 60_000)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The ranges of the changelog that are read; it has no records in them."""
    read: list[tuple[int, int]] = []

    def read_range(_kafka: Kafka, _topic: str, _partition: int, start: int, end: int) -> object:
        read.append((start, end))
        return iter(())

    monkeypatch.setattr(local_store, "first_offset", lambda *_: 0)
    monkeypatch.setattr(local_store, "read_range", read_range)
    return read


def used(folder: Path, end: int, changes: int, *, log: TopicFacts = LOG, partition: int = 0) -> None:
    """Opens the store in a folder at the end of its changelog, and commits a batch with a row."""
    store = LocalStore(SPEC, RocksDBBackend(SPEC, folder), log, partition, ManualClock())
    store.catch_up(Kafka(""), end, report)
    store.backend.write([(b"key", b"12345678row")], store.written(changes))
    store.close()


def opened(folder: Path) -> LocalStore:
    return LocalStore(SPEC, RocksDBBackend(SPEC, folder), LOG, 0, ManualClock())


def report(_: Restoring) -> None:
    """Nobody watches."""


def test_nothing_is_read_if_nobody_else_wrote(tmp_path: Path, asked: list[tuple[int, int]]) -> None:
    used(tmp_path / "totals", 7, changes=2)
    asked.clear()
    store = opened(tmp_path / "totals")
    store.catch_up(Kafka(""), 10, report)  # two changes and the mark of the transaction
    assert asked == []
    assert store.backend.get(b"key") is not None
    store.close()


def test_what_others_wrote_is_read_from_where_the_store_stood(tmp_path: Path, asked: list[tuple[int, int]]) -> None:
    used(tmp_path / "totals", 7, changes=2)
    asked.clear()
    store = opened(tmp_path / "totals")
    store.catch_up(Kafka(""), 12, report)
    assert asked == [(7, 12)]
    assert store.backend.get(b"key") is not None
    store.close()


@pytest.mark.parametrize(
    "foreign", [{"partition": 1}, {"log": TopicFacts("app-totals-changelog", "BBB", 2, 60_000)}]
)  # fmt: skip
def test_a_foreign_store_is_emptied_and_restored(
    tmp_path: Path, asked: list[tuple[int, int]], foreign: dict[str, object]
) -> None:
    used(tmp_path / "totals", 7, changes=2, **foreign)  # type: ignore[arg-type]
    asked.clear()
    store = opened(tmp_path / "totals")
    store.catch_up(Kafka(""), 10, report)
    assert asked == [(0, 10)]
    assert store.backend.get(b"key") is None
    store.close()


def test_a_store_that_is_gone_is_not_restored_from_what_is_left_of_its_changelog(
    tmp_path: Path, asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    used(tmp_path / "kept", 7, changes=2)
    asked.clear()
    monkeypatch.setattr(local_store, "first_offset", lambda *_: 5)
    kept = opened(tmp_path / "kept")
    kept.catch_up(Kafka(""), 12, report)
    kept.close()
    gone = opened(tmp_path / "gone")
    with pytest.raises(LostChangelogError, match="begins at 5 in partition 0, and the store has to be restored from 0"):
        gone.catch_up(Kafka(""), 12, report)
    gone.close()
    assert asked == [(7, 12)]


@pytest.mark.parametrize("start", [8, 12])
def test_a_store_does_not_go_on_behind_a_gap(
    tmp_path: Path, asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    used(tmp_path / "totals", 7, changes=2)
    asked.clear()
    monkeypatch.setattr(local_store, "first_offset", lambda *_: start)
    store = opened(tmp_path / "totals")
    with pytest.raises(LostChangelogError, match=f"begins at {start} in partition 0"):
        store.catch_up(Kafka(""), 12, report)
    assert store.backend.get(b"key") is not None, "nothing is thrown away"
    store.close()
    assert asked == []


@pytest.mark.parametrize("end", [5, 7, 9])
def test_a_changelog_that_lost_records_is_not_followed(tmp_path: Path, asked: list[tuple[int, int]], end: int) -> None:
    used(tmp_path / "totals", 7, changes=2)
    store = opened(tmp_path / "totals")
    with pytest.raises(LostChangelogError, match=f"ends at {end} in partition 0, and the store had followed it to 10"):
        store.catch_up(Kafka(""), end, report)
    assert store.backend.get(b"key") is not None, "nothing is thrown away"
    store.close()


def test_a_new_store_takes_nothing_from_a_changelog_that_is_behind_its_tasks_marker(
    tmp_path: Path, asked: list[tuple[int, int]]
) -> None:
    store = opened(tmp_path / "totals")
    with pytest.raises(LostChangelogError, match="ends at 3 in partition 0, and the task's marker has it at 7"):
        store.catch_up(Kafka(""), 3, report, 7)
    assert asked == []
    store.catch_up(Kafka(""), 7, report, 7)
    assert store.position == 7
    store.close()


def test_files_that_an_erasure_does_not_want_are_deleted_before_they_are_opened(tmp_path: Path) -> None:
    holder = RocksDBBackend(SPEC, tmp_path / "store")
    store = holder.open()
    store.write([(b"k", b"v")])
    mark_unwanted(tmp_path / "store")
    store.close()
    again = holder.open()
    assert again.get(b"k") is None
    again.write([(b"k", b"w")])
    again.close()
    assert not is_unwanted(tmp_path / "store")
    last = holder.open()
    assert last.get(b"k") == b"w", "only once"
    last.close()
