"""Directories of replicas."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from state.clock import ManualClock
from state.replicas.places import RocksDBPlace
from state.replicas.states import ReplicaId

ID = ReplicaId("rewards", 3)


@pytest.fixture
def place(tmp_path: Path) -> RocksDBPlace:
    return RocksDBPlace(tmp_path / "state", ManualClock(now_ms=5))


def fill(place: RocksDBPlace) -> None:
    store = place.open(ID)
    store.write([(b"k", b"v")])
    store.close()


def is_empty(place: RocksDBPlace) -> bool:
    store = place.open(ID)
    try:
        return store.get(b"k") is None
    finally:
        store.close()


def test_rows_survive_closing(place: RocksDBPlace, tmp_path: Path) -> None:
    fill(place)
    assert not is_empty(place)
    assert (tmp_path / "state" / "rewards" / "3").is_dir()
    assert stat.S_IMODE((tmp_path / "state" / "rewards").stat().st_mode) == 0o700


def test_wiping_leaves_nothing(place: RocksDBPlace, tmp_path: Path) -> None:
    fill(place)
    place.wipe(ID)
    assert list((tmp_path / "state" / "rewards").iterdir()) == []
    place.wipe(ID)
    assert is_empty(place)


def test_a_wipe_that_a_crash_cut_short_is_finished_by_the_next_opening(place: RocksDBPlace, tmp_path: Path) -> None:
    fill(place)
    folder = tmp_path / "state" / "rewards"
    (folder / "3").rename(folder / "3.wiped")
    assert is_empty(place)
    assert [entry.name for entry in folder.iterdir()] == ["3"]


def test_only_the_newest_damaged_copy_is_kept(place: RocksDBPlace, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "rewards"
    (folder / "13.corrupt-1").mkdir(parents=True)
    for _ in range(2):
        fill(place)
        place.set_aside(ID)
    names = sorted(entry.name for entry in folder.iterdir())
    assert names == ["13.corrupt-1", "3.corrupt-5"]
    assert is_empty(place)
