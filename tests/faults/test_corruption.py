"""Flipped bits, cut and missing files of a RocksDB store: detected or harmless, never a wrong value."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from storekeeper.clock import ManualClock
from storekeeper.errors import StateError, StorageError, StoreCorruptedError
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.stores.set_aside import set_aside
from tests.faults.damage import OPTIONS, States, build_store, random_damage, wrong_answers

ALL = tuple(b"%d" % position for position in range(6))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, States]:
    directory = tmp_path_factory.mktemp("damage")
    return directory, build_store(directory / "closed", crashed=directory / "crashed")


@pytest.mark.parametrize(("state", "positions"), [("closed", ALL[-1:]), ("crashed", ALL[3:])])
def test_no_damage_gives_a_wrong_answer(
    state: str, positions: tuple[bytes, ...], stores: tuple[Path, States], tmp_path: Path, long_run: bool
) -> None:
    source, states = stores
    assert wrong_answers_of_copy(source / state, tmp_path, states, positions) == (False, [])
    detected = 0
    for seed in range(250 if long_run else 30):
        copy = tmp_path / str(seed)
        shutil.copytree(source / state, copy)
        damage = random_damage(copy, random.Random(seed))
        found, wrong = wrong_answers(copy, states, positions)
        assert not wrong, (seed, damage, wrong[:3])
        detected += found
        shutil.rmtree(copy)
    assert detected


def wrong_answers_of_copy(
    source: Path, scratch: Path, states: States, positions: tuple[bytes, ...]
) -> tuple[bool, list[str]]:
    copy = scratch / "whole"
    shutil.copytree(source, copy)
    return wrong_answers(copy, states, positions[-1:])


@pytest.mark.parametrize("pattern", ["*.sst", "MANIFEST-*", "CURRENT", "DURABLE"])
@pytest.mark.parametrize("kind", ["delete", "truncate"])
def test_a_half_deleted_store_is_never_taken_for_a_whole_one(
    pattern: str, kind: str, stores: tuple[Path, States], tmp_path: Path
) -> None:
    shutil.copytree(stores[0] / "closed", tmp_path / "store")
    for file in (tmp_path / "store").glob(pattern):
        if kind == "delete":
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(StoreCorruptedError, match=r"set (it|the store) aside"):
        open_rocksdb(tmp_path / "store", "damaged", OPTIONS)


def test_a_lost_log_is_noticed_after_a_flush(stores: tuple[Path, States], tmp_path: Path) -> None:
    store = open_rocksdb(tmp_path / "store", "damaged", OPTIONS)
    store.write([(b"a", b"1")])
    store.flush()
    shutil.copytree(tmp_path / "store", tmp_path / "killed")
    store.close()
    for log in (tmp_path / "killed").glob("*.log"):
        log.unlink()
    with pytest.raises(StoreCorruptedError, match="lost writes"):
        open_rocksdb(tmp_path / "killed", "damaged", OPTIONS)


def test_a_damaged_store_is_set_aside_and_a_new_one_starts(stores: tuple[Path, States], tmp_path: Path) -> None:
    path = tmp_path / "rewards"
    for _ in range(2):
        shutil.copytree(stores[0] / "closed", path)
        (path / "CURRENT").unlink()
        with pytest.raises(StoreCorruptedError):
            open_rocksdb(path, "damaged", OPTIONS)
        set_aside(path, clock=ManualClock(now_ms=1_700_000_000_000))
    names = sorted(entry.name for entry in tmp_path.iterdir())
    assert names == ["rewards.corrupt-1700000000000", "rewards.corrupt-1700000000001"]
    store = open_rocksdb(path, "damaged", OPTIONS)
    assert list(store.scan(None, None)) == []
    store.close()


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a store")
    with pytest.raises(StoreCorruptedError, match="no durable mark"):
        open_rocksdb(tmp_path, "damaged", OPTIONS)


def test_a_store_that_is_open_elsewhere_is_not_called_corrupted(tmp_path: Path) -> None:
    store = open_rocksdb(tmp_path / "store", "damaged", OPTIONS)
    with pytest.raises(StorageError, match="open elsewhere") as refused:
        open_rocksdb(tmp_path / "store", "damaged", OPTIONS)
    assert not isinstance(refused.value, StoreCorruptedError)
    assert isinstance(refused.value, StateError)
    store.close()
