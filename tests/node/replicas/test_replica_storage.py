"""Directories of replicas."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from storekeeper.clock import ManualClock
from storekeeper.node.replicas.replica_storage import RetainedReplicas, RocksDBStorage
from storekeeper.protocol.replica_states import ReplicaId

ID = ReplicaId("rewards", 3)


@pytest.fixture
def storage(tmp_path: Path) -> RocksDBStorage:
    return RocksDBStorage(tmp_path / "state", ManualClock(now_ms=5))


def fill(storage: RocksDBStorage) -> None:
    store = storage.open(ID)
    store.write([(b"k", b"v")])
    store.close()


def is_empty(storage: RocksDBStorage) -> bool:
    store = storage.open(ID)
    try:
        return store.get(b"k") is None
    finally:
        store.close()


def test_rows_survive_closing(storage: RocksDBStorage, tmp_path: Path) -> None:
    fill(storage)
    assert not is_empty(storage)
    assert (tmp_path / "state" / "rewards" / "3").is_dir()
    assert stat.S_IMODE((tmp_path / "state" / "rewards").stat().st_mode) == 0o700


def test_wiping_leaves_nothing(storage: RocksDBStorage, tmp_path: Path) -> None:
    fill(storage)
    storage.wipe(ID)
    assert list((tmp_path / "state" / "rewards").iterdir()) == []
    storage.wipe(ID)
    assert is_empty(storage)


def test_a_wipe_that_a_crash_cut_short_is_finished_by_the_next_opening(storage: RocksDBStorage, tmp_path: Path) -> None:
    fill(storage)
    folder = tmp_path / "state" / "rewards"
    (folder / "3").rename(folder / "3.wiped")
    assert is_empty(storage)
    assert [entry.name for entry in folder.iterdir()] == ["3"]


def test_only_the_newest_damaged_copy_is_kept(storage: RocksDBStorage, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "rewards"
    (folder / "13.corrupt-1").mkdir(parents=True)
    for _ in range(2):
        fill(storage)
        storage.set_aside(ID)
        assert storage.set_aside_ms(ID) == 5
    names = sorted(entry.name for entry in folder.iterdir())
    assert names == ["13.corrupt-1", "3.corrupt-5"]
    assert is_empty(storage)


def test_an_erasure_keeps_no_copy(storage: RocksDBStorage, tmp_path: Path) -> None:
    fill(storage)
    storage.set_aside(ID)
    fill(storage)
    storage.erase(ID)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert is_empty(storage)


def test_what_nobody_held_for_long_enough_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    clock = ManualClock(1000)
    for name in ("0", "0.corrupt-16", "1", "2", "1.corrupt-17", "3.corrupt-18", "notes"):
        (tmp_path / "rewards" / name).mkdir(parents=True)
        (tmp_path / "rewards" / name / "CURRENT").write_text("x")
    retained = RetainedReplicas(tmp_path, clock, keep_s=60)
    retained.sweep({ReplicaId("rewards", 0)})
    clock.advance(59_000)
    retained.sweep({ReplicaId("rewards", 0), ReplicaId("rewards", 2)})
    assert len(list((tmp_path / "rewards").iterdir())) == 7
    clock.advance(1000)
    retained.sweep({ReplicaId("rewards", 0)})
    # 2 was held in between, so its time began anew. Damaged copies go with the rows: an erasure does not reach them.
    assert sorted(path.name for path in (tmp_path / "rewards").iterdir()) == ["0", "0.corrupt-16", "2", "notes"]


def test_rows_that_may_be_a_last_copy_are_never_deleted(tmp_path: Path) -> None:
    for name in ("rewards", "rewards@topic-g2"):
        (tmp_path / name / "0.corrupt-17").mkdir(parents=True)
    clock = ManualClock(0)
    retained = RetainedReplicas(tmp_path, clock, keep_s=60)
    for _ in range(2):
        retained.sweep((), lambda variant: variant == "rewards@topic-g2")
        clock.advance(120_000)
    assert [path.parent.name for path in tmp_path.glob("*/*")] == ["rewards@topic-g2"]
