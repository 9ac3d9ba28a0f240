"""A full disk: a typed error, reads go on, and writing resumes once there is space, without a rebuild."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock, patch

import pytest

from storekeeper.errors import DiskFullError, StateError, StorageError, StoreClosedError, StoreCorruptedError
from storekeeper.serdes.serde import BytesSerde
from storekeeper.stores.profile import Profile
from storekeeper.stores.rocksdb import RocksDBStore, open_rocksdb
from storekeeper.stores.rocksdb_options import RocksDBOptions
from tests.stores.task_store import SmallRocksDB, TaskStore, store_spec

OPTIONS = RocksDBOptions(profile=Profile.MEMORY_CONSTRAINED)


@contextmanager
def file_size_limit(limit_bytes: int) -> Iterator[None]:
    """No file may grow beyond the limit: the nearest thing to a full disk that needs no root."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write_until_full(store: RocksDBStore, first: int) -> int:
    """Writes batches until one is refused; returns the number of the refused one."""
    number = first
    while number < first + 10_000:
        store.write([(b"%06d-%d" % (number, row), b"v" * 200) for row in range(20)], {b"position": b"%d" % number})
        number += 1
    pytest.fail("the disk never filled")


def fill(store: RocksDBStore) -> None:
    with pytest.raises(DiskFullError, match="free some"):
        write_until_full(store, 1)


def check_prefix(store: RocksDBStore) -> int:
    """Rows and position must belong together; returns the position."""
    position = int(store.metadata(b"position") or b"0")
    with store.scan(None, None) as rows:
        assert sorted({int(key[:6]) for key, _ in rows}) == list(range(1, position + 1))
    return position


def test_writing_resumes_after_space_is_freed(tmp_path: Path) -> None:
    store = open_rocksdb(tmp_path / "store", "full", OPTIONS)
    with file_size_limit(300_000):
        fill(store)
        reached = check_prefix(store)
        assert reached > 1
        with pytest.raises(DiskFullError):
            store.write([(b"more", b"v" * 1000)])
        assert check_prefix(store) == reached
    store.write([(b"%06d-0" % (reached + 1), b"v")], {b"position": b"%d" % (reached + 1)})
    assert check_prefix(store) == reached + 1
    store.close()
    again = open_rocksdb(tmp_path / "store", "full", OPTIONS)
    assert check_prefix(again) == reached + 1
    again.close()


@pytest.mark.parametrize("failure", [StorageError("too many open files"), DiskFullError("still no room")])
def test_a_store_that_could_not_be_opened_anew_is_opened_by_a_later_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: StateError
) -> None:
    store = open_rocksdb(tmp_path / "store", "full", OPTIONS)
    with file_size_limit(300_000):
        fill(store)
        reached = check_prefix(store)
    with monkeypatch.context() as patched:
        patched.setattr(store, "_opened", Mock(side_effect=failure))
        for _ in range(2):
            with pytest.raises(type(failure)):
                store.write([(b"more", b"v")])
        with pytest.raises(StoreClosedError):
            store.get(b"000001-0")
        with pytest.raises(StoreClosedError):
            store.property_int("rocksdb.estimate-num-keys")
    store.write([(b"%06d-0" % (reached + 1), b"v")], {b"position": b"%d" % (reached + 1)})
    assert check_prefix(store) == reached + 1
    store.close()


def test_a_store_that_has_lost_rows_when_it_is_opened_anew_takes_no_more(tmp_path: Path) -> None:
    store = open_rocksdb(tmp_path / "store", "full", OPTIONS)
    with file_size_limit(300_000):
        fill(store)
    release = store._release

    def losing() -> None:
        release()
        for log in (tmp_path / "store").glob("*.log"):
            log.write_bytes(b"")

    with patch.object(store, "_release", losing), pytest.raises(StoreCorruptedError, match="lost writes"):
        store.write([(b"more", b"v")])
    store.close()


def test_a_full_disk_loses_nothing_that_a_batch_has_committed(tmp_path: Path) -> None:
    task = TaskStore(store_spec(keys=BytesSerde(), values=BytesSerde()), SmallRocksDB(tmp_path))
    rows = [(b"%06d" % number, b"v" * 500) for number in range(2000)]
    for key, value in rows:
        task.store.put(key, value)
    with file_size_limit(300_000), pytest.raises(DiskFullError):
        task.end_batch()
    assert [(change.key, change.value) for change in task.log] == rows
    assert task.backend.get(rows[0][0]) is None
    task.reopen()
    assert task.store.get_many([key for key, _ in rows]) == [value for _, value in rows]
    task.close()


def test_a_small_file_system(tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(mount)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a file system needs root")
    try:
        ballast = mount / "ballast"
        # What is freed holds all that can have been buffered, twice: the store makes sure of that before it resumes.
        ballast.write_bytes(bytes(11 << 20))
        store = open_rocksdb(mount / "store", "full", OPTIONS)
        fill(store)
        reached = check_prefix(store)
        ballast.unlink()
        store.write([(b"%06d-0" % (reached + 1), b"v")], {b"position": b"%d" % (reached + 1)})
        assert check_prefix(store) == reached + 1
        store.close()
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)
