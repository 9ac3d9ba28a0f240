from __future__ import annotations

import gc
from pathlib import Path

import pytest

from storekeeper.errors import DiskFullError, InvalidNameError, StorageError, StoreClosedError, StoreCorruptedError
from storekeeper.stores.durable_mark import DurableMark, read_mark, write_mark
from storekeeper.stores.profile import Profile
from storekeeper.stores.rocksdb import open_rocksdb, translated
from storekeeper.stores.rocksdb_options import (
    MIB,
    RocksDBMemory,
    RocksDBOptions,
)
from storekeeper.stores.rocksdb_sealed import SealedSupplier

ROWS: list[tuple[bytes, bytes | None]] = [(b"key-%05d" % number, b"v" * 200) for number in range(5000)]


@pytest.mark.parametrize("profile", list(Profile))
def test_every_profile_keeps_rows(tmp_path: Path, profile: Profile) -> None:
    store = open_rocksdb(tmp_path / "store", "rewards", RocksDBOptions(profile=profile))
    store.write(ROWS)
    store.compact()
    assert list(store.scan(None, None)) == ROWS
    store.close()


def test_stores_share_one_bound(tmp_path: Path) -> None:
    memory = RocksDBMemory(bound_bytes=8 * MIB)
    stores = [open_rocksdb(tmp_path / str(number), "rewards", RocksDBOptions(memory=memory)) for number in range(3)]
    for store in stores:
        for part in range(4):
            store.write([(b"%d-%b" % (part, key), value) for key, value in ROWS])
        # Write buffers may exceed their share until they are flushed: wait for that, then fill the cache by reading.
        store.compact()
    for store in stores:
        assert sum(1 for _ in store.scan(None, None)) == 4 * len(ROWS)
        assert memory.usage_bytes() <= 8 * MIB
    assert memory.usage_bytes() > 4 * MIB
    for store in stores:
        store.close()


def test_an_open_iterator_never_keeps_the_lock(tmp_path: Path) -> None:
    store = open_rocksdb(tmp_path / "store", "rewards")
    store.write(ROWS)
    rows = store.scan(None, None)
    next(rows)
    store.close()
    again = open_rocksdb(tmp_path / "store", "rewards")
    assert again.get(b"key-00001") is not None
    again.close()
    with pytest.raises(Exception, match="closed"):
        next(rows)


def test_bounds_outlive_the_call_that_made_them(tmp_path: Path) -> None:
    store = open_rocksdb(tmp_path / "store", "rewards")
    store.write(ROWS)
    scans = [store.scan(b"key-00010", b"key-%05d" % (20 + number)) for number in range(200)]
    gc.collect()
    assert [sum(1 for _ in scan) for scan in scans] == [10 + number for number in range(200)]
    store.close()


def test_names_are_checked_before_they_become_paths(tmp_path: Path) -> None:
    with pytest.raises(InvalidNameError):
        SealedSupplier(tmp_path).open("../elsewhere")
    assert list(tmp_path.iterdir()) == []


def test_the_durable_mark_has_golden_bytes(tmp_path: Path) -> None:
    mark = DurableMark(sequence=258, manifest_number=5, manifest_bytes=7, manifest_checksum=9)
    golden = "534b444d0000000100000000000001020000000000000005000000000000000700000009CRC"
    assert mark.encoded().hex()[:-8] == golden.removesuffix("CRC")
    assert read_mark(tmp_path) is None
    write_mark(tmp_path, mark)
    assert read_mark(tmp_path) == mark
    (tmp_path / "DURABLE").write_bytes(mark.encoded()[:-1] + b"\x00")
    with pytest.raises(StoreCorruptedError):
        read_mark(tmp_path)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("IO error: No space left on device: While appending to file: 000012.log", DiskFullError),
        ("IO error: File too large: While appending", DiskFullError),
        ("Corruption: block checksum mismatch", StoreCorruptedError),
        ("IO error: No such file or directory: While open a file: 000009.sst", StoreCorruptedError),
        ("IO error: lock hold by current process", StorageError),
        ("IO error: Input/output error", StorageError),
    ],
)
def test_messages_become_types(text: str, kind: type[Exception]) -> None:
    error = translated(Exception(text), "somewhere")
    assert type(error) is kind
    assert "somewhere" in str(error)


def test_a_closed_database_is_a_closed_store() -> None:
    closed = type("DbClosedError", (Exception,), {})("DB instance already closed")
    assert type(translated(closed, "somewhere")) is StoreClosedError
