"""Resident memory of one process with five million rows: `python -m benchmarks.memory`.

Rows are written to stores as those of tasks under a 256 MiB bound for block cache and write buffers, then read and
overwritten at random; memory is sampled all along. The limit is 600 MiB.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks.results import Measure, write_results
from storekeeper.stores.bytes_store import BytesStore, Entry
from storekeeper.stores.rocksdb_options import MIB, bound_process_memory
from storekeeper.stores.rocksdb_sealed import open_sealed

ROWS = 5_000_000
KEY_BYTES = 20
VALUE_BYTES = 100
BOUND_BYTES = 256 * MIB
LIMIT_MIB = 600
BATCH = 1000
STORES = 4
MIXED_BATCHES = 1000


def rows_of(first: int, chance: random.Random) -> list[Entry]:
    """One batch of rows of 120 bytes."""
    return [(b"key-%016d" % number, chance.randbytes(VALUE_BYTES)) for number in range(first, first + BATCH)]


def load(stores: list[BytesStore], chance: random.Random) -> Iterator[float]:
    """Writes every row; yields memory as it goes."""
    process = psutil.Process()
    for batch in range(ROWS // BATCH):
        stores[batch % STORES].write(rows_of(batch // STORES * BATCH, chance))
        if batch % 50 == 0:
            yield process.memory_info().rss / MIB
    for store in stores:
        store.flush()


def mix(stores: list[BytesStore], chance: random.Random) -> Iterator[float]:
    """Reads and overwrites at random; yields memory as it goes."""
    process = psutil.Process()
    rows_per_store = ROWS // STORES
    for batch in range(MIXED_BATCHES):
        store = stores[batch % STORES]
        keys = [b"key-%016d" % chance.randrange(rows_per_store) for _ in range(BATCH)]
        if any(value is None for value in store.get_many(keys)):
            msg = "a row is missing"
            raise AssertionError(msg)
        store.write([(key, chance.randbytes(VALUE_BYTES)) for key in keys[:500]])
        if batch % 10 == 0:
            yield process.memory_info().rss / MIB
        if batch % 100 == 99:
            store.flush()


def main() -> int:
    """Measures, writes the result, and fails above the limit."""
    directory = Path(tempfile.mkdtemp(prefix="sk-bench-"))
    bound_process_memory(BOUND_BYTES)
    chance = random.Random(7)
    names = [f"store-{number}" for number in range(STORES)]
    stores: list[BytesStore] = [open_sealed(directory / name, name) for name in names]
    begin = time.perf_counter()
    try:
        loading = list(load(stores, chance))
        loaded_s = time.perf_counter() - begin
        mixed = list(mix(stores, chance))
        for store in stores:
            store.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    measures = [
        Measure("resident while loading, peak", "MiB", [max(loading)], higher_is_better=False),
        Measure("resident while reading and writing, peak", "MiB", [max(mixed)], higher_is_better=False),
        Measure("resident while reading and writing", "MiB", mixed, higher_is_better=False),
        Measure("load", "rows/s", [ROWS / loaded_s]),
    ]
    settings = {
        "rows": ROWS, "row_bytes": KEY_BYTES + VALUE_BYTES, "stores": STORES, "bound_mib": BOUND_BYTES // MIB,
        "limit_mib": LIMIT_MIB,
    }  # fmt: skip
    path = write_results("memory", measures, settings)
    for report in (measure.as_dict() for measure in measures):
        print(f"{report['measure']:42} {report['ours']:12} {report['unit']}  spread {report['spread']}")
    print(path)
    return 0 if max(loading + mixed) < LIMIT_MIB else 1


if __name__ == "__main__":
    sys.exit(main())
