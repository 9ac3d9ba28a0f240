"""RocksDB's tuning: what a profile really sets, and the one bound of a process."""

from __future__ import annotations

import configparser
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rocksdict import Rdict, WriteBatch

from storekeeper.errors import ConfigurationError
from storekeeper.stores.profile import Profile
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.stores.rocksdb_options import (
    MIB,
    TUNING,
    RocksDBMemory,
    RocksDBOptions,
    bound_process_memory,
    metadata_options,
    process_memory,
    row_options,
)


@pytest.fixture
def memory() -> Iterator[RocksDBMemory]:
    before = process_memory().bound_bytes
    yield process_memory()
    bound_process_memory(before)


def options_file(directory: Path) -> dict[str, str]:
    """What RocksDB says it runs with: the database's options and those of the rows' column family."""
    newest = max(directory.glob("OPTIONS-*"))
    parser = configparser.RawConfigParser()
    parser.read(newest, encoding="utf-8")
    sections = ("DBOptions", 'CFOptions "default"', 'TableOptions/BlockBasedTable "default"')
    return {name: value for section in sections for name, value in parser[section].items()}


@pytest.mark.parametrize("profile", list(Profile))
def test_a_profile_sets_its_numbers(tmp_path: Path, profile: Profile) -> None:
    open_rocksdb(tmp_path / "store", "rows", RocksDBOptions(profile=profile)).close()
    used, tuning = options_file(tmp_path / "store"), TUNING[profile]
    assert {
        "write_buffer_size": str(tuning.write_buffer_bytes),
        "max_write_buffer_number": str(tuning.write_buffers),
        "level0_file_num_compaction_trigger": str(tuning.level_zero_files),
        "block_size": str(tuning.block_bytes),
        "filter_policy": "bloomfilter",
        "max_open_files": str(tuning.max_open_files),
        "target_file_size_base": str(tuning.target_file_bytes),
        "max_background_jobs": str(tuning.background_jobs),
        "partition_filters": "true",
        "compression": "kLZ4Compression",
        "paranoid_checks": "true",
        "cache_index_and_filter_blocks": "true",
        "wal_recovery_mode": "kTolerateCorruptedTailRecords",
    }.items() <= used.items()


def test_reads_of_a_large_store_do_not_load_its_filter_each_time(tmp_path: Path) -> None:
    memory, chance = RocksDBMemory(8 * MIB), random.Random(1)
    native = row_options(RocksDBOptions(memory=memory))
    native.enable_statistics()
    store = Rdict(str(tmp_path), native, column_families={"other": metadata_options(RocksDBOptions(memory=memory))})
    keys = [b"%08d" % number for number in chance.sample(range(500_000), 500_000)]  # in order, no files were merged
    for start in range(0, len(keys), 20_000):
        batch = WriteBatch(raw_mode=True)
        for key in keys[start : start + 20_000]:
            batch.put(key, key)
        store.write(batch)
    store.flush()
    store.compact_range(None, None)

    def loaded_bytes() -> int:
        found = re.search(r"cache\.filter\.bytes\.insert COUNT : (\d+)", native.get_statistics() or "")
        assert found
        return int(found[1])

    before, whole = loaded_bytes(), len(keys) * TUNING[Profile.BALANCED].bloom_bits // 8
    for key in chance.sample(keys, 1000):
        store.get(key)
    assert loaded_bytes() - before < 10 * whole
    store.close()


def test_every_profile_is_for_something_else() -> None:
    assert set(TUNING) == set(Profile)
    assert len(set(TUNING.values())) == len(Profile)
    smallest = TUNING[Profile.MEMORY_CONSTRAINED]
    assert all(smallest.write_buffer_bytes <= tuning.write_buffer_bytes for tuning in TUNING.values())
    assert RocksDBOptions().profile is Profile.BALANCED


def test_write_buffers_may_take_half_of_the_bound() -> None:
    memory = RocksDBMemory(bound_bytes=16 * MIB)
    assert (memory.write_buffers.get_buffer_size(), memory.pinned_bytes()) == (8 * MIB, 0)


def test_the_process_has_one_memory_that_stores_take_by_themselves(tmp_path: Path, memory: RocksDBMemory) -> None:
    assert process_memory() is memory
    before = memory.usage_bytes()
    store = open_rocksdb(tmp_path / "store", "rows")
    store.write([(b"%d" % number, bytes(1000)) for number in range(2000)])
    assert memory.usage_bytes() > before
    store.close()


def test_a_store_with_a_memory_of_its_own_leaves_that_of_the_process_alone(
    tmp_path: Path, memory: RocksDBMemory
) -> None:
    own = RocksDBMemory(bound_bytes=16 * MIB)
    before = memory.usage_bytes()
    store = open_rocksdb(tmp_path / "store", "rows", RocksDBOptions(memory=own))
    store.write([(b"%d" % number, bytes(1000)) for number in range(2000)])
    assert (own.usage_bytes() > 2 * MIB, memory.usage_bytes()) == (True, before)
    store.close()


def test_the_bound_can_be_changed_while_stores_are_open(memory: RocksDBMemory) -> None:
    assert bound_process_memory(64 * MIB) is memory
    assert (memory.bound_bytes, memory.write_buffers.get_buffer_size()) == (64 * MIB, 32 * MIB)


@pytest.mark.parametrize("bound_bytes", [8 * MIB - 1, 0, -1])
def test_a_bound_that_can_not_work_is_refused_and_changes_nothing(memory: RocksDBMemory, bound_bytes: int) -> None:
    before = memory.bound_bytes
    with pytest.raises(ConfigurationError, match="at least 8 MiB"):
        RocksDBMemory(bound_bytes)
    with pytest.raises(ConfigurationError, match="at least 8 MiB"):
        bound_process_memory(bound_bytes)
    assert (memory.bound_bytes, memory.write_buffers.get_buffer_size()) == (before, before // 2)
    assert RocksDBMemory(8 * MIB).bound_bytes == 8 * MIB
