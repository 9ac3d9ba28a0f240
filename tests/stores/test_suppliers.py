"""Suppliers: what they open, under which names, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from storekeeper.errors import ConfigurationError, InvalidNameError, StorageError
from storekeeper.stores.lru import LruStore
from storekeeper.stores.memory import MemoryStore
from storekeeper.stores.suppliers import LruSupplier, MemorySupplier, RedisSupplier, RocksDBSupplier, StoreSupplier


def test_memory_is_empty_at_each_open() -> None:
    supplier = MemorySupplier()
    first = supplier.open("rows")
    first.write([(b"a", b"1")])
    again = supplier.open("rows")
    assert (type(again), again.name, again.persistent, again.get(b"a")) == (MemoryStore, "rows", False, None)


def test_an_lru_store_has_the_suppliers_bound() -> None:
    store = LruSupplier(max_entries=1).open("rows")
    store.write([(b"a", b"1"), (b"b", b"1")])
    assert (type(store), store.persistent, list(store.scan(None, None))) == (LruStore, False, [(b"b", b"1")])
    with pytest.raises(ConfigurationError):
        LruSupplier(max_entries=0).open("rows")


def test_rocksdb_finds_the_rows_of_a_name_again(tmp_path: Path) -> None:
    supplier = RocksDBSupplier(tmp_path / "made" / "if missing")
    store = supplier.open("rows")
    store.write([(b"a", b"1")])
    assert (store.persistent, store.name) == (True, "rows")
    with pytest.raises(StorageError, match="one process at a time"):
        supplier.open("rows")
    other = supplier.open("other")
    assert other.get(b"a") is None
    other.close()
    store.close()
    again = supplier.open("rows")
    assert again.get(b"a") == b"1"
    again.close()
    assert {path.name for path in Path(supplier.directory).iterdir()} == {"rows", "other"}


def test_an_unknown_profile_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="balanced"):
        RocksDBSupplier(tmp_path, profile="fast").open("rows")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "ä", "a" * 129])
def test_names_that_can_not_name_a_store_are_refused(tmp_path: Path, name: str) -> None:
    suppliers: list[StoreSupplier] = [MemorySupplier(), LruSupplier(1), RocksDBSupplier(tmp_path)]
    for supplier in suppliers:
        with pytest.raises(InvalidNameError):
            supplier.open(name)
    assert list(tmp_path.iterdir()) == []


def test_a_servers_address_is_not_shown_as_it_may_hold_a_password() -> None:
    supplier = RedisSupplier("redis://:secret@127.0.0.1:6379/0")
    assert "secret" not in repr(supplier)
    assert supplier.prefix == "storekeeper"


def test_a_redis_server_that_is_not_there_is_an_error_of_storage(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        RedisSupplier(f"unix://{tmp_path}/absent.sock").open("rows")


def test_a_program_without_rocksdb_stores_does_not_load_the_native_library() -> None:
    code = "import sys, storekeeper.stores.suppliers; sys.exit('rocksdict' in sys.modules or 'redis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
