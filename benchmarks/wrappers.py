"""What each wrapper costs against raw rocksdict: `python -m benchmarks.wrappers`.

Every stack holds the same rows in a RocksDB of its own, with bytes serdes and a changelog that throws records away, so
that only our code is measured. Runs are interleaved and paired: each ratio compares two runs that followed one another.
Times are CPU time of the calling thread, so that a busy machine doesn't blur them.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rocksdict import Rdict, WriteBatch

from benchmarks.results import Measure, write_results
from storekeeper.serdes.serde import BytesSerde
from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.caching import CacheBudget
from storekeeper.stores.key_value import KeyValueStore
from storekeeper.stores.rocksdb import RocksDBStore
from storekeeper.stores.rocksdb_options import RocksDBOptions, row_options
from storekeeper.stores.suppliers import RocksDBSupplier

ROWS = 200_000
VALUE_BYTES = 100
READS = 20_000
BATCH = 1000
RUNS = 9
CACHE_BYTES = 4 << 20  # about a tenth of the rows: most reads miss

Store = KeyValueStore[bytes, bytes]
Row = tuple[bytes, bytes]


class NoChangelog:
    """Takes records and forgets them."""

    def append(self, *_: Any) -> None:
        """Forgets one."""

    def append_many(self, *_: Any) -> None:
        """Forgets many."""

    def flush(self) -> None:
        """Has nothing to flush."""


def stacks(directory: Path) -> dict[str, StoreBuilder]:
    """The stores under test, by what is on top of the backend."""
    plain = StoreBuilder("store", RocksDBSupplier(directory / "typed")).with_metrics_disabled()
    return {
        "typed": plain,
        "metered": StoreBuilder("store", RocksDBSupplier(directory / "metered")),
        "logged": StoreBuilder("store", RocksDBSupplier(directory / "logged"))
        .with_metrics_disabled()
        .with_logging(NoChangelog()),
        "cached": StoreBuilder("store", RocksDBSupplier(directory / "cached"))
        .with_metrics_disabled()
        .with_caching(CacheBudget(CACHE_BYTES)),
        "all": StoreBuilder("store", RocksDBSupplier(directory / "all"))
        .with_logging(NoChangelog())
        .with_caching(CacheBudget(CACHE_BYTES)),
    }


def settled(store: Store, rows: list[Row]) -> Store:
    """The store with its rows in table files."""
    store.put_all(rows)
    store.flush()
    backend = store.layers.backend
    assert isinstance(backend, RocksDBStore)
    backend.compact()
    return store


def cpu_us(work: Callable[[], object], operations: int) -> float:
    """CPU microseconds of this thread per operation."""
    begin = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - begin) / operations / 1000


def paired(
    name: str, raw: Callable[[], object], ours: dict[str, Callable[[], object]], operations: int
) -> list[Measure]:
    """Runs raw before each stack, `RUNS` times over; one measure per stack."""
    raw_runs: dict[str, list[float]] = {stack: [] for stack in ours}
    our_runs: dict[str, list[float]] = {stack: [] for stack in ours}
    for run in range(RUNS + 1):
        for stack, work in ours.items():
            peer, own = cpu_us(raw, operations), cpu_us(work, operations)
            if run:  # the first is a warm-up
                raw_runs[stack].append(peer)
                our_runs[stack].append(own)
    return [
        Measure(
            f"{name}: {stack}", "us/operation", our_runs[stack], raw_runs[stack], "rocksdict", higher_is_better=False
        )
        for stack in ours
    ]


def each(function: Callable[[bytes], object], keys: Sequence[bytes]) -> None:
    """One call a key."""
    for key in keys:
        function(key)


def each_put(function: Callable[[bytes, bytes], object], rows: Sequence[Row]) -> None:
    """One call a row."""
    for key, value in rows:
        function(key, value)


def write_raw(database: Rdict, batches: Sequence[list[Row]]) -> None:
    """One WriteBatch a batch."""
    for batch in batches:
        native = WriteBatch(raw_mode=True)
        put = native.put
        for key, value in batch:
            put(key, value)
        database.write(native)


def put_batches(store: Store, batches: Sequence[list[Row]]) -> None:
    """One `put_all` a batch, and what a cache holds goes down at the end, as at a commit."""
    for batch in batches:
        store.put_all(batch)
    cache = store.layers.cache
    if cache is not None:
        cache.send_down()


def measure(directory: Path) -> list[Measure]:
    """All measures."""
    chance = random.Random(7)
    rows = [(b"key-%012d" % number, chance.randbytes(VALUE_BYTES)) for number in range(ROWS)]
    raw = Rdict(str(directory / "raw"), row_options(RocksDBOptions()))
    write_raw(raw, [rows])
    raw.flush()
    raw.compact_range(None, None)
    stores = {
        name: settled(builder.key_value(BytesSerde(), BytesSerde()), rows)
        for name, builder in stacks(directory).items()
    }
    keys = [rows[chance.randrange(ROWS)][0] for _ in range(READS)]
    # Other keys than the single reads, or a cache would hold them all.
    others = [rows[chance.randrange(ROWS)][0] for _ in range(READS)]
    batches = [others[begin : begin + BATCH] for begin in range(0, READS, BATCH)]
    updates = [[(key, b"u" * VALUE_BYTES) for key in batch] for batch in batches]
    flat = [row for batch in updates for row in batch]
    raw_get: Callable[[Any], Any] = raw.get
    raw_put = raw.put

    measures = paired("get", lambda: each(raw_get, keys), {n: _get(s, keys) for n, s in stores.items()}, READS)
    measures += paired(
        "get_many of 1,000",
        lambda: [raw_get(batch) for batch in batches],
        {n: _get_many(s, batches) for n, s in stores.items()},
        READS,
    )
    measures += paired("range", lambda: sum(1 for _ in raw.items()), {n: _range(s) for n, s in stores.items()}, ROWS)
    measures += paired(
        "put_all of 1,000",
        lambda: write_raw(raw, updates),
        {n: _put_all(s, updates) for n, s in stores.items()},
        READS,
    )
    measures += paired("put", lambda: each_put(raw_put, flat), {n: _put(s, flat) for n, s in stores.items()}, READS)
    for store in stores.values():
        store.close()
    raw.close()
    return measures


def _get(store: Store, keys: list[bytes]) -> Callable[[], object]:
    return lambda: each(store.get, keys)


def _get_many(store: Store, batches: list[list[bytes]]) -> Callable[[], object]:
    return lambda: [store.get_many(batch) for batch in batches]


def _range(store: Store) -> Callable[[], object]:
    return lambda: sum(1 for _ in store.all())


def _put_all(store: Store, updates: list[list[Row]]) -> Callable[[], object]:
    return lambda: put_batches(store, updates)


def _put(store: Store, rows: list[Row]) -> Callable[[], object]:
    return lambda: each_put(store.put, rows)


def main() -> int:
    """Measures, writes the results and prints them."""
    directory = Path(tempfile.mkdtemp(prefix="sk-bench-"))
    try:
        measures = measure(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    settings = {"rows": ROWS, "value_bytes": VALUE_BYTES, "reads": READS, "batch": BATCH, "cache_bytes": CACHE_BYTES}
    path = write_results("wrappers", measures, {**settings, "clock": "CPU time of the calling thread"})
    for report in (one.as_dict() for one in measures):
        print(f"{report['measure']:28} {report['ours']:8} us  raw {report['peer']:8} us  ratio {report['ratio']}")
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
