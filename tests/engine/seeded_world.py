"""The changelog of a task's store of any kind, the sealed table of its beginning, and local stores that follow it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from storekeeper.changelog.checkpoint import METADATA_KEY
from storekeeper.changelog.reader import TopicFacts
from storekeeper.changelog.skipped import skip_reason
from storekeeper.clock import ManualClock
from storekeeper.engine import local_store
from storekeeper.engine.local_store import LocalStore
from storekeeper.engine.restore_progress import Restoring
from storekeeper.engine.store_backends import RocksDBBackend
from storekeeper.kafka.connection import Kafka
from storekeeper.snapshots.seed_tables import SeedTables
from storekeeper.stores.bytes_store import BytesStore
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.stores.segmented import INTERVAL_KEY
from storekeeper.stores.suppliers import MemorySupplier
from storekeeper.topology import Store, StoreKind, StreamsBuilder, sessions, tumbling
from storekeeper.topology.operators.process import ProcessorContext
from storekeeper.topology.records import RecordFields
from storekeeper.topology.sub_topology import SubTopology
from storekeeper.topology.task import Task
from storekeeper.topology.topology_store import TopologyStore
from tests.changelog.messages import Record
from tests.engine.topologies import Totals
from tests.snapshot_tables import Row, manifest_of, write_snapshot

NOW_MS = 1_760_000_000_000
DAY_MS = 86_400_000
SECOND = timedelta(seconds=1)
LOG = TopicFacts("app-rows-changelog", "id-1", 1, DAY_MS)
BATCHES, IN_TABLE = 20, 14
METADATA = (METADATA_KEY, b"changelog-own-end", INTERVAL_KEY, b"ttl-ms")


class Putting:
    """Puts each record's value."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.rows = context.store("rows")

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        self.rows.put(key, value, timestamp_ms)


class Keeping:
    """Keeps each record's value, or deletes the row."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.rows = context.store("rows")

    def process(self, key: str, value: int, _: int) -> None:
        self.rows.put(key, value if value % 3 else None)


def table(streams: StreamsBuilder) -> None:
    streams.table("events", int, store=Store("rows", int))


def totals(streams: StreamsBuilder) -> None:
    streams.stream("events", int).group_by_key().aggregate(Totals, Totals.plus, store=Store("rows", Totals))


def ranked(streams: StreamsBuilder) -> None:
    rows = Store("rows", Totals, ranked_by="total")
    streams.stream("events", int).group_by_key().aggregate(Totals, Totals.plus, store=rows)


def processor(streams: StreamsBuilder) -> None:
    streams.add_store(Store("rows", int))
    streams.stream("events", int).process(Keeping, stores=["rows"], values=int)


def windows(streams: StreamsBuilder) -> None:
    rows = Store("rows", int, retention=200 * SECOND)
    streams.stream("events", int).group_by_key().windowed_by(tumbling(5 * SECOND)).count(store=rows)


def session_windows(streams: StreamsBuilder) -> None:
    rows = Store("rows", int, retention=200 * SECOND)
    streams.stream("events", int).group_by_key().windowed_by(sessions(3 * SECOND)).count(store=rows)


def versioned(streams: StreamsBuilder) -> None:
    streams.table("events", int, store=Store("rows", int, history=60 * SECOND))


def with_ttl(streams: StreamsBuilder) -> None:
    streams.add_store(Store("rows", int, kind=StoreKind.TTL, ttl=60 * SECOND))
    streams.stream("events", int).process(Putting, stores=["rows"], values=int)


KINDS = [table, totals, ranked, processor, windows, session_windows, versioned, with_ttl]


class Supplier:
    """Gives a task its store."""

    def __init__(self, store: BytesStore) -> None:
        self._store = store

    def open(self, _: str) -> BytesStore:
        return self._store


class World:
    """The changelog of a task, which a real task has written, and the table of its beginning."""

    def __init__(
        self, root: Path, seed: int, describe: Callable[[StreamsBuilder], object], patch: pytest.MonkeyPatch
    ) -> None:
        self.root, self.rng = root, random.Random(seed)
        self.clock = ManualClock(NOW_MS)
        self.records: list[Record] = []
        self.read: list[tuple[int, int]] = []
        self.start = 0
        self.reports: list[Restoring] = []
        streams = StreamsBuilder("app")
        describe(streams)
        self.sub: SubTopology
        (self.sub,) = streams.build().sub_topologies
        self.spec: TopologyStore
        (self.spec,) = self.sub.stores
        self._at_ms = NOW_MS - 1_000_000
        self.end = self.table_end = 0
        self._write_log()
        patch.setattr(local_store, "first_offset", lambda *_: self.start)
        patch.setattr(local_store, "read_range", self._range)
        patch.setattr(local_store, "FAR_BEHIND_RECORDS", 1)

    def batch(self) -> list[RecordFields]:
        """Records of the topic, some of them late."""
        self._at_ms += self.rng.randrange(20_000)
        return [
            ("events", 0, at, self._at_ms - self.rng.randrange(30_000), b"k%d" % self.rng.randrange(12),
             b"%d" % self.rng.randrange(100), ())
            for at in range(self.rng.randrange(1, 12))
        ]  # fmt: skip

    def _write_log(self) -> None:
        task = Task(self.sub, 0, MemorySupplier())
        offset = 0
        for batch in range(BATCHES):
            if batch == IN_TABLE:
                self.table_end = offset
            task.process(self.batch())
            ended = task.end_batch()
            for change in ended.changes:
                self.records.append(Record(offset, change.key, change.value, change.timestamp_ms))
                offset += 1
            task.apply()
            self.progress = ended.progress
            offset += 1  # the mark of the transaction
            if self.rng.random() < 0.2 and self.records:  # a clean-up's tombstone, or a record that is no row
                key = self.rng.choice(self.records).record_key
                foreign = self.rng.random() < 0.5
                self.records.append(Record(offset, key, b"?" if foreign else None, self._at_ms, None))
                offset += 1
        task.close()
        self.end = offset

    def _range(self, _kafka: Kafka, _topic: str, _partition: int, start: int, end: int) -> Iterator[Record]:
        self.read.append((start, end))
        return (record for record in self.records if start <= record.at < end)

    def compact(self) -> None:
        """What the log cleaner may do: of each key the newest record is left, and no tombstone older than the table."""
        newest = {record.record_key: record.at for record in self.records}
        self.records = [
            record
            for record in self.records
            if record.at == newest[record.record_key]
            and (record.record_value is not None or record.at >= self.table_end)
        ]

    def write_table(self, **changes: Any) -> None:
        """The table as of batch `IN_TABLE`, which was whole a minute ago."""
        newest = {record.record_key: record for record in self.records if record.at < self.table_end}
        rows = [
            Row(0, record.at, record.at_ms, record.record_key, record.record_value)
            for record in newest.values()
            if record.record_key is not None
            and record.record_value is not None
            and skip_reason(record.record_key, record.record_value, record.at_ms, record.record_headers or ()) is None
        ]
        told = {
            "store": "rows",
            "changelog_topic": LOG.topic,
            "changelog_id": LOG.topic_id,
            "changelog_offsets": {0: self.table_end},
            "one_version": True,
            "batch_ms": NOW_MS - 60_000,
        }
        write_snapshot(self.root / "delta" / "rows", rows, manifest=manifest_of(rows, **(told | changes)))

    @property
    def tables(self) -> SeedTables:
        return SeedTables(str(self.root / "delta"), str(self.root / "seals"))

    def store(self, name: str, *, seeded: bool = True) -> LocalStore:
        holder = RocksDBBackend(self.spec, self.root / name)
        return LocalStore(self.spec, holder, LOG, 0, self.clock, seeds=self.tables if seeded else None)

    def caught_up(self, name: str, *, seeded: bool = True) -> LocalStore:
        store = self.store(name, seeded=seeded)
        try:
            store.catch_up(Kafka(""), self.end, self.reports.append)
        except BaseException:
            store.close()
            raise
        return store

    def stored(self, name: str, *, seeded: bool = True) -> tuple[list[tuple[bytes, bytes]], list[bytes | None]]:
        """The bytes of a store's rows, with their hashes, and what it says of itself."""
        self.caught_up(name, seeded=seeded).close()
        store = open_rocksdb(self.root / name, "rows")
        with closing(store), store.scan(None, None) as rows:
            return list(rows), [store.metadata(key) for key in METADATA]

    def replayed(self) -> tuple[list[tuple[bytes, bytes]], list[bytes | None]]:
        found = self.stored(f"replay-{self.rng.random()}", seeded=False)
        assert found[0], "there is something to compare"
        self.read.clear()
        return found

    def outputs(self, name: str, batches: list[list[RecordFields]], *, seeded: bool) -> list[Any]:
        """What a task over a store that is restored writes in its next batches."""
        store = self.caught_up(name, seeded=seeded)
        task = Task(self.sub, 0, Supplier(store.backend), progress=self.progress)
        found: list[Any] = []
        for batch in batches:
            task.process(batch)
            ended = task.end_batch()
            found.append((ended.changes, ended.outputs, ended.progress))
            task.apply()
        store.close()
        return found
