"""RocksDB tuning: four profiles, and one memory bound for all stores of a process.

The block cache holds the blocks read from disk, their indexes and filters, and is charged for the write buffers too,
so `RocksDBMemory.bound_bytes` bounds them all together, however many stores are open.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    WriteBufferManager,
)

from storekeeper.errors import ConfigurationError
from storekeeper.stores.profile import Profile

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Tuning:
    """The numbers behind a profile. Sizes are per store."""

    write_buffer_bytes: int
    write_buffers: int
    level_zero_files: int
    block_bytes: int
    bloom_bits: int
    max_open_files: int
    target_file_bytes: int
    background_jobs: int


TUNING = {
    Profile.WRITE_HEAVY: Tuning(64 * MIB, 4, 8, 16 << 10, 10, -1, 64 * MIB, 2),
    Profile.READ_HEAVY: Tuning(16 * MIB, 2, 2, 4 << 10, 12, -1, 32 * MIB, 2),
    Profile.MEMORY_CONSTRAINED: Tuning(4 * MIB, 2, 4, 4 << 10, 10, 64, 16 * MIB, 1),
    Profile.BALANCED: Tuning(16 * MIB, 3, 4, 4 << 10, 10, -1, 32 * MIB, 2),
}


class RocksDBMemory:
    """One block cache and one write-buffer manager, shared by every store that is opened with it.

    Write buffers take at most half of the bound and are charged to the cache. The cache never refuses a block that a
    reader needs, so a scan may exceed the bound for a moment. Thread-safe.

    Raises:
        ConfigurationError: the bound is lower.
    """

    def __init__(self, bound_bytes: int = 256 * MIB) -> None:
        _check_bound(bound_bytes)
        self.bound_bytes = bound_bytes
        self.cache = Cache(bound_bytes)
        self.write_buffers = WriteBufferManager.new_write_buffer_manager_with_cache(
            bound_bytes // 2, allow_stall=False, cache=self.cache
        )

    def usage_bytes(self) -> int:
        """Bytes in the cache now, write buffers included."""
        return int(self.cache.get_usage())

    def pinned_bytes(self) -> int:
        """Bytes of the cache that readers hold now and that can't be evicted."""
        return int(self.cache.get_pinned_usage())


_process_memory: list[RocksDBMemory] = []
_process_memory_lock = threading.Lock()


def process_memory() -> RocksDBMemory:
    """The process's shared memory: made on first use, 256 MiB unless `bound_process_memory` came first."""
    with _process_memory_lock:
        if not _process_memory:
            _process_memory.append(RocksDBMemory())
        return _process_memory[0]


def bound_process_memory(bound_bytes: int) -> RocksDBMemory:
    """Sets the bound of the process's shared memory, also for stores that are open already.

    The write buffers' share follows for both. Returns the shared memory.

    Raises:
        ConfigurationError: the bound is below 8 MiB; it stays as it was.
    """
    _check_bound(bound_bytes)
    memory = process_memory()
    memory.bound_bytes = bound_bytes
    memory.cache.set_capacity(bound_bytes)
    memory.write_buffers.set_buffer_size(bound_bytes // 2)
    return memory


def _check_bound(bound_bytes: int) -> None:
    if bound_bytes < 8 * MIB:
        raise ConfigurationError(f"RocksDB needs at least 8 MiB for cache and write buffers, not {bound_bytes} bytes")


@dataclass(frozen=True, slots=True)
class RocksDBOptions:
    """How one store is opened. `profile` is what the store is mostly used for; without `memory` it shares the process's
    cache and write buffers.
    """

    profile: Profile = Profile.BALANCED
    memory: RocksDBMemory | None = None


def row_options(options: RocksDBOptions) -> Options:
    """The native options of the rows' column family and of the database."""
    tuning = TUNING[options.profile]
    memory = options.memory or process_memory()
    native = Options(raw_mode=True)
    native.create_if_missing(True)
    native.create_missing_column_families(True)
    # A flipped bit inside the log is damage: set the store aside. A torn last record is what a crash leaves.
    native.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    native.set_paranoid_checks(True)
    native.set_write_buffer_size(tuning.write_buffer_bytes)
    native.set_max_write_buffer_number(tuning.write_buffers)
    native.set_write_buffer_manager(memory.write_buffers)
    native.set_level_zero_file_num_compaction_trigger(tuning.level_zero_files)
    native.set_target_file_size_base(tuning.target_file_bytes)
    native.set_max_background_jobs(tuning.background_jobs)
    native.set_max_open_files(tuning.max_open_files)
    native.set_compression_type(DBCompressionType.lz4())
    native.set_keep_log_file_num(2)
    native.set_max_log_file_size(4 * MIB)
    native.set_block_based_table_factory(_table_options(tuning, memory))
    return native


def metadata_options(options: RocksDBOptions) -> Options:
    """The native options of the metadata's column family: a handful of rows, rewritten often."""
    memory = options.memory or process_memory()
    native = Options(raw_mode=True)
    native.set_write_buffer_size(MIB)
    native.set_write_buffer_manager(memory.write_buffers)
    native.set_block_based_table_factory(_table_options(TUNING[options.profile], memory))
    return native


def _table_options(tuning: Tuning, memory: RocksDBMemory) -> BlockBasedOptions:
    table = BlockBasedOptions()
    table.set_block_cache(memory.cache)
    table.set_block_size(tuning.block_bytes)
    table.set_bloom_filter(tuning.bloom_bits, block_based=False)
    # Indexes and filters live in the cache, or they would grow outside the bound with every file.
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_format_version(6)
    # In partitions: a shard of the cache has no place for the whole filter of a large file, so each read would load it.
    # With 128 MiB, reads of a store of 2.5 million rows took 390 us of processor in place of 10. A small store's
    # take as long either way.
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_metadata_block_size(4096)
    table.set_pin_top_level_index_and_filter(True)
    return table
