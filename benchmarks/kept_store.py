"""A store of the loyalty app's rows, whose changelog a benchmark writes, and whose snapshots it takes and measures."""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.results import Measure, write_results
from benchmarks.streams import fast_producer
from harness.broker import Broker, start_broker
from spark_apps.pos import POS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.changelog.headers import CHANGES, ChangelogHeaders
from storekeeper.changelog.partitioner import partition_for
from storekeeper.changelog.position import Position
from storekeeper.changelog.scan import Changelog
from storekeeper.engine.runtime.checkpoint import CommittedBatch
from storekeeper.snapshots.append import Appending
from storekeeper.snapshots.as_of import HISTORY
from storekeeper.snapshots.catalogue.entry import Entry
from storekeeper.snapshots.columns import StoreValues, values_of
from storekeeper.snapshots.fold import Current
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.seal import Seal, SealedTable

SIZES = (1_000_000, 10_000_000)
PARTITIONS = 4
_BATCH_MS = 60_000
_OF_CHANGELOGS = {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}


@dataclass
class Spent:
    """What some work took: seconds of the clock, and of the processor."""

    seconds: float = 0.0
    processor_s: float = 0.0

    @contextmanager
    def adding(self) -> Iterator[None]:
        """Adds what the block takes."""
        began, processor = time.perf_counter(), time.process_time()
        yield
        self.seconds += time.perf_counter() - began
        self.processor_s += time.process_time() - processor


class MeasuredSeal(SealedTable):
    """A sealed table that says what its sealing takes: looking at the folder before a commit, and the seal after it."""

    def __init__(self, path: Path, file: Path, spent: Spent) -> None:
        super().__init__(path, file)
        self._spent = spent

    def current(self, **how: Any) -> Seal | None:
        """As it says there, measured."""
        with self._spent.adding():
            return super().current(**how)

    def _made(self, before: Seal) -> Seal:
        with self._spent.adding():
            return super()._made(before)


@dataclass
class Taken:
    """What a snapshot took: its append to the history, its fold, and in both of these what belongs to the seals."""

    append: Spent = field(default_factory=Spent)
    fold: Spent = field(default_factory=Spent)
    seal: Spent = field(default_factory=Spent)


class KeptStore:
    """A store of `rows` rows.

    Args:
        broker: has its changelog.
        folder: for its tables.
        rows: how many rows.
    """

    def __init__(self, broker: Broker, folder: Path, rows: int) -> None:
        self.rows = rows
        self.spec = StoreSpec(f"rewards-{rows}", "bench", POS.stores[0].value_fields)
        self.values: StoreValues = values_of(self.spec, AppSettings())
        self.folder = folder
        self._broker = broker
        self._drawn = random.Random(1)
        self._batch = -1
        self._totals = dict.fromkeys(range(PARTITIONS), 0)
        self._began_ms = int(time.time() * 1000) - 3_600_000
        broker.create_topic(self.spec.changelog_topic, PARTITIONS, _OF_CHANGELOGS)
        self.changelog = Changelog(broker.kafka, self.spec.changelog_topic)

    def sealed(self, suffix: str = "", spent: Spent | None = None) -> SealedTable:
        """The table, or with `HISTORY` the history."""
        name = f"rewards{suffix}"
        return MeasuredSeal(self.folder / name, self.folder / "seals" / f"{name}.json", spent or Spent())

    def fill(self) -> None:
        """Writes each row once."""
        self.write(range(self.rows))

    def change(self, share: float) -> int:
        """Writes a batch that changes a share of the rows, spread over all; returns how many."""
        count = max(1, round(self.rows * share))
        self.write(self._drawn.sample(range(self.rows), count) if share < 1 else range(self.rows))
        return count

    def write(self, numbers: Iterable[int]) -> None:
        """Writes a batch: a change of each of these rows."""
        self._batch += 1
        headers = ChangelogHeaders(1, self._batch, self._now_ms, {"pos": {0: (0, 1000)}}).encode()
        producer, topic = fast_producer(self._broker.bootstrap), self.spec.changelog_topic
        last: dict[int, tuple[bytes, bytes]] = {}

        def produce(partition: int, more: list[tuple[str, bytes]]) -> None:
            key, value = last[partition]
            while True:
                try:
                    return producer.produce(topic, value, key, partition, headers=[*headers, *more])
                except BufferError:
                    producer.poll(0.05)

        for number in numbers:
            key = b"%010d" % number
            partition = partition_for(key, PARTITIONS)
            if partition in last:
                produce(partition, [])
            last[partition] = key, self._value(number)
            self._totals[partition] += 1
        for partition in last:
            produce(partition, [(CHANGES, b"%d" % self._totals[partition])])
        producer.flush()

    def snapshot(self) -> tuple[SnapshotManifest, Taken]:
        """Takes a snapshot up to the last batch."""
        taken = Taken()
        table, history = (self._entry(suffix, taken.seal) for suffix in ("", HISTORY))
        appending = Appending(
            store=self.spec,
            entry=history,
            log=self.changelog,
            values=self.values,
            planned=lambda: {1: self._batch},
            tombstones_ms=86_400_000,
            now_ms=self._now_ms + 1000,
        )
        batch = CommittedBatch(1, self._batch, Position({"pos": {0: self._batch}}), self._now_ms)
        with taken.append.adding():
            manifest = appending.upto(batch)
        with taken.fold.adding():
            snapshot, _ = Current(self.spec, table, self.values).follow(manifest)
        assert snapshot.row_count == self.rows
        return snapshot, taken

    def _entry(self, suffix: str, spent: Spent) -> Entry:
        sealed = self.sealed(suffix, spent)
        return Entry(sealed.path.name, sealed.path, "Rows of a benchmark.", {}, "rewards@snapshot", sealed)

    @property
    def _now_ms(self) -> int:
        return self._began_ms + self._batch * _BATCH_MS

    def _value(self, number: int) -> bytes:
        count = self._batch + 1
        return (
            b'{"CustomerCardNo":"%010d","TotalLoyaltyPoints":%d.%04d,"InvoiceCount":%d,"LastInvoiceTime":17000000%05d}'
            % (number, number % 100_000, count, count, number % 100_000)
        )


def run_sizes(
    name: str,
    doc: str | None,
    measure: Callable[[KeptStore, int], Iterator[Measure]],
    settings: dict[str, int | float | str],
) -> None:
    """The main program of a benchmark: measures a store of each size, and writes the results.

    Args:
        name: the benchmark's.
        doc: its description.
        measure: gives the measures of a store, each of a number of runs: one for all but the smallest size.
        settings: what the results name beside the sizes.
    """
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--rows", type=int, nargs="+", default=[*SIZES])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="a short run that writes no results")
    arguments = parser.parse_args()
    sizes, runs = ([2_000], 1) if arguments.smoke else (arguments.rows, arguments.runs)
    measures: list[Measure] = []
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
    broker = start_broker(folder / "broker")
    try:
        for rows in sizes:
            for found in measure(KeptStore(broker, folder / str(rows), rows), runs if rows == min(sizes) else 1):
                print(f"{found.name}: {', '.join(f'{one:,.3f}' for one in found.ours)} {found.unit}", flush=True)
                measures.append(found)
            shutil.rmtree(folder / str(rows))
    finally:
        broker.stop()
        shutil.rmtree(folder)
    if not arguments.smoke:
        print(write_results(name, measures, {"rows": max(sizes), **settings}))
