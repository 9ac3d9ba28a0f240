"""How much memory a process with state stores needs: a formula, computed before anything is deployed.

For the JVM of a Kafka Streams instance the rule of thumb is

    2 GiB + 100 MiB x partitions          heap
    + 512 MiB                             block cache (256 MiB to 1 GiB)
    + 64 MiB x stores x 3                 write buffers
    + 20 % of the total                   page cache of the operating system

Ours has no heap, and one bound for block cache and write buffers of all stores, so they don't grow with the number of
stores or partitions:

    base                                  the interpreter and libraries
    + 2 MiB x partitions x stores         open files, iterators and consumer buffers per replica
    + bound                               block cache and write buffers together, at least what the write buffers need
    + record cache                        rows that wait for a flush
    + 20 % of the total                   page cache

and on disk, per replica: rows x (key + value + 24 bytes) x 1.1 for levels x 1.1 for compaction in progress.
"""

from __future__ import annotations

from dataclasses import dataclass

from storekeeper.errors import InvalidArgumentError

MIB = 1 << 20
GIB = 1 << 30

BASE_BYTES = 150 * MIB
PER_REPLICA_BYTES = 2 * MIB
MIN_WRITE_BUFFERS_BYTES = 4 * MIB
PAGE_CACHE_SHARE = 0.2
ROW_OVERHEAD_BYTES = 24
LEVELS_FACTOR = 1.1
COMPACTION_FACTOR = 1.1
INDEX_AND_FILTER_BYTES_PER_ROW = 2.5
"""10 bits of Bloom filter and a share of an index entry per 4 KiB block; what a point read needs in the cache."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The workload of one process.

    Attributes:
        partitions: partitions of each store in this process, standbys included.
        stores: number of stores.
        rows: rows of one store over its partitions here.
        key_bytes: mean size of a key.
        value_bytes: mean size of a value.
        bound_bytes: the process's bound for block cache and write buffers.
        record_cache_bytes: the bound of the record caches.
    """

    partitions: int
    stores: int
    rows: int
    key_bytes: int
    value_bytes: int
    bound_bytes: int = 256 * MIB
    record_cache_bytes: int = 10 * MIB

    def __post_init__(self) -> None:
        positive = (self.partitions, self.stores, self.key_bytes)
        if min(positive) < 1 or min(self.rows, self.value_bytes, self.bound_bytes, self.record_cache_bytes) < 0:
            raise InvalidArgumentError("partitions, stores and key size must be positive, the rest not negative")


@dataclass(frozen=True, slots=True)
class Part:
    """One summand. `formula` shows the numbers."""

    name: str
    bytes: int
    formula: str


@dataclass(frozen=True, slots=True)
class Sizing:
    """The answer.

    Attributes:
        memory: the summands of memory.
        disk: the summands of disk.
        wanted_cache_bytes: the bound that would keep all indexes and filters in memory; below it reads touch the disk
            twice.
    """

    memory: tuple[Part, ...]
    disk: tuple[Part, ...]
    wanted_cache_bytes: int

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory, all parts together."""
        return sum(part.bytes for part in self.memory)

    @property
    def disk_bytes(self) -> int:
        """Bytes on disk, all parts together."""
        return sum(part.bytes for part in self.disk)


def size(workload: Workload) -> Sizing:
    """Memory and disk that one process needs for a workload."""
    replicas = workload.partitions * workload.stores
    per_replica = PER_REPLICA_BYTES * replicas
    least = 2 * MIN_WRITE_BUFFERS_BYTES * replicas
    bound = max(workload.bound_bytes, least)
    fixed = BASE_BYTES + per_replica + bound + workload.record_cache_bytes
    page_cache = round(fixed * PAGE_CACHE_SHARE / (1 - PAGE_CACHE_SHARE))
    row = workload.key_bytes + workload.value_bytes + ROW_OVERHEAD_BYTES
    rows = workload.rows * workload.stores
    raw = rows * row
    levelled = round(raw * LEVELS_FACTOR)
    return Sizing(
        memory=(
            Part("base", BASE_BYTES, "interpreter and libraries"),
            Part("replicas", per_replica, f"2 MiB x {workload.partitions} partitions x {workload.stores} stores"),
            Part(
                "block cache and write buffers",
                bound,
                f"the bound, at least 2 x 4 MiB x {replicas} replicas = {least // MIB} MiB",
            ),
            Part("record caches", workload.record_cache_bytes, "their bound"),
            Part("page cache", page_cache, "20 % of the total"),
        ),
        disk=(
            Part("rows", raw, f"{rows} rows x ({workload.key_bytes} + {workload.value_bytes} + 24 bytes)"),
            Part("levels", levelled - raw, "10 % of the rows, for what is overwritten but not compacted yet"),
            Part("compaction", round(levelled * (COMPACTION_FACTOR - 1)), "10 % more while a compaction runs"),
        ),
        wanted_cache_bytes=round(rows * INDEX_AND_FILTER_BYTES_PER_ROW) + least,
    )


def kafka_streams_memory_bytes(partitions: int, stores: int) -> int:
    """The rule of thumb for a Kafka Streams instance, for comparison.

    8 partitions and 3 stores: 2.8 GiB heap + 512 MiB cache + 576 MiB write buffers + 20 % = about 4.8 GiB.
    """
    fixed = 2 * GIB + 100 * MIB * partitions + 512 * MIB + 64 * MIB * stores * 3
    return round(fixed / (1 - PAGE_CACHE_SHARE))
