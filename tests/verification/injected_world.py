"""A store with all of its copies, at which faults are injected.

Tables, seals and the local stores are real files, as our jobs write them; the node and the changelog are in memory.
"""

from __future__ import annotations

import base64
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx2

from spark_apps.pos import POS
from storekeeper.apps.settings import SnapshotSettings
from storekeeper.changelog.checkpoint import METADATA_KEY, Checkpoint
from storekeeper.changelog.headers import BATCH_ID, CHANGES, ChangelogHeaders
from storekeeper.changelog.log_record import CleanupAction, Headers, LogRecord, cleanup_headers
from storekeeper.changelog.partitioner import partition_for
from storekeeper.changelog.position import Position
from storekeeper.changelog.reader import TopicFacts
from storekeeper.changelog.scan import Changelog
from storekeeper.clock import SystemClock
from storekeeper.engine.local_store import _OWN_END
from storekeeper.engine.runtime.checkpoint import CommittedBatch
from storekeeper.generations.live import live_topology
from storekeeper.snapshots.append import Appending
from storekeeper.snapshots.catalogue.entry import entry_of_history, entry_of_store
from storekeeper.snapshots.columns import values_of
from storekeeper.snapshots.fold import Current
from storekeeper.snapshots.history import HistoryManifest
from storekeeper.snapshots.seal import SealedTable
from storekeeper.snapshots.table_upkeep import HOUR_MS
from storekeeper.stores.rocksdb_sealed import open_sealed
from storekeeper.stores.row import ReplicaRow
from storekeeper.stores.row_digest import BUCKETS, bucket_of, stored_row_hash, to_hex
from storekeeper.topology.records import StoreChange
from storekeeper.topology.task_stores import restore
from storekeeper.verification import verify
from storekeeper.verification.check_verdict import CheckVerdict
from storekeeper.verification.node_copies import NodeCopies

PARTITIONS = 2
REWARDS = POS.stores[0]
TOPIC = REWARDS.changelog_topic
CHANGELOG_ID = "id of the changelog"
LAST_BATCH = 14
_RECORDS = 20
"""Of a batch."""


def time_of(batch: int) -> int:
    return 1_700_000_000_000 + batch * 4 * HOUR_MS


def headers_of(batch: int) -> Headers:
    return ChangelogHeaders(1, batch, time_of(batch), {}, REWARDS.schema_version).encode()


def value_of(number: int, invoices: int) -> bytes:
    return b'{"CustomerCardNo":"C%d","TotalLoyaltyPoints":%d.5000,"InvoiceCount":%d,"LastInvoiceTime":%d}' % (
        number,
        invoices,
        invoices,
        1_600_000_000_000 + number,
    )


@dataclass
class World:
    """A run directory, a changelog, and what node `a` holds by partition, at the changelog's end."""

    run_dir: Path
    log: list[list[LogRecord]]
    node: list[dict[bytes, ReplicaRow]] = field(default_factory=list)
    ahead: int = 0
    ends: list[int] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    """The paths by which the node was asked to set rows aside."""

    @property
    def settings(self) -> SnapshotSettings:
        return SnapshotSettings(run_dir=self.run_dir, kafka_bootstrap="127.0.0.1:1", peers="a=http://a")

    @property
    def table(self) -> Path:
        return self.run_dir / "delta" / "rewards"

    @property
    def history(self) -> Path:
        return self.run_dir / "delta" / "rewards_history"

    @property
    def sealed_history(self) -> SealedTable:
        return SealedTable.of(self.settings, "rewards_history")

    @property
    def seal(self) -> Path:
        return self.run_dir / "seals" / "rewards.json"

    @property
    def sealed(self) -> SealedTable:
        return SealedTable.of(self.settings, "rewards")

    def folder(self, partition: int) -> Path:
        return self.run_dir / "tasks" / "pos" / "gen-1" / "slot" / str(partition) / "rewards"

    def end(self, partition: int) -> int:
        return self.log[partition][-1].offset + 1

    def newest(self, partition: int, end: int) -> dict[bytes, LogRecord]:
        """The newest record of each key that has a row before an offset."""
        found = {record.key or b"": record for record in self.log[partition] if record.offset < end}
        return {key: record for key, record in found.items() if record.value is not None}

    def append(self, batch: int) -> HistoryManifest:
        """Appends to the history what the changelog has up to a batch."""
        known = self.sealed.read()
        values, at_ms = values_of(REWARDS, self.settings), time_of(batch)
        appending = Appending(
            store=REWARDS,
            entry=entry_of_history(REWARDS, POS, self.settings),
            log=cast("Changelog", FakeChangelog(self.log)),
            values=values,
            planned=lambda: {1: LAST_BATCH},
            tombstones_ms=FakeChangelog.facts.delete_retention_ms,
            now_ms=at_ms + 1000,
            changelog_id=CHANGELOG_ID,
        )
        floor_ms = 0 if known is None or known.manifest is None else known.manifest.batch_ms
        return appending.upto(CommittedBatch(1, batch, Position({"pos": {0: 10}}), at_ms), floor_ms=floor_ms)

    def snapshot(self, batch: int) -> None:
        """Takes a snapshot up to a batch."""
        history = self.append(batch)
        table = entry_of_store(REWARDS, POS, self.settings)
        Current(REWARDS, table, values_of(REWARDS, self.settings)).follow(history)

    def fill(self) -> World:
        """Gives the node and the tasks what the changelog holds, and takes two snapshots."""
        topology = live_topology(POS, self.settings)
        (spec,) = [one for sub in topology.sub_topologies for one in sub.stores if one.name == "rewards"]
        for partition in range(PARTITIONS):
            rows = self.newest(partition, self.end(partition))
            self.ends.append(self.end(partition))
            self.node.append({
                key: ReplicaRow(REWARDS.schema_version, record.timestamp_ms, record.value or b"")
                for key, record in rows.items()
            })  # fmt: skip
            self.folder(partition).parent.mkdir(parents=True)
            store = open_sealed(self.folder(partition), "rewards")
            end = self.end(partition)
            checkpoint = Checkpoint(TOPIC, "id", partition, end, SystemClock().now_ms())
            changes = (StoreChange("rewards", key, record.value, record.timestamp_ms) for key, record in rows.items())
            restore(spec, store, changes, {METADATA_KEY: checkpoint.encode(), _OWN_END: b"%d" % end})
            store.close()
        for batch in (LAST_BATCH - 5, LAST_BATCH - 3, LAST_BATCH - 1):
            self.snapshot(batch)
        return self

    def copied(self, run_dir: Path) -> World:
        """A world of its own."""
        shutil.copytree(self.run_dir, run_dir)
        log, node = [list(records) for records in self.log], [dict(rows) for rows in self.node]
        return World(run_dir, log, node, ends=[*self.ends])

    def verdict(self, patch: Any, repair: str | None = None) -> CheckVerdict:
        """What `storekeeper verify rewards` says, with `--repair` of a holder."""
        patch.setattr(verify, "Changelog", lambda *_: FakeChangelog(self.log))
        patch.setattr(verify, "Topics", lambda *_: FakeTopics(self))
        transport = httpx2.MockTransport(self._answer)
        patch.setattr(verify, "NodeCopies", lambda known, found: NodeCopies(known, found, transport=transport))
        return verify.verify_store("rewards", self.settings, repair=repair)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/state/cluster":
            return httpx2.Response(200, json={"members": [{"name": "a", "address": "http://a"}]})
        if request.method == "POST":
            self.repaired.append(request.url.path)
            return httpx2.Response(202)
        partition = int(request.url.path.rpartition("/")[2])
        hashes = {
            key: stored_row_hash(key, row.value, row.timestamp_ms, row.schema_version)
            for key, row in self.node[partition].items()
        }
        buckets = [0] * BUCKETS
        for key, one in hashes.items():
            buckets[bucket_of(key)] += one
        wanted = {int(number) for number in request.url.params.get_list("bucket")}
        return httpx2.Response(
            200,
            json={
                "topic": TOPIC,
                "offset": self.ends[partition] + self.ahead,
                "rows": len(hashes),
                "digest": to_hex(sum(buckets) % 2**64),
                "set_aside_ms": None,
                "buckets": [to_hex(number % 2**64) for number in buckets],
                "entries": [
                    (_told(key), to_hex(one)) for key, one in hashes.items() if bucket_of(key) in wanted
                ],
            },
        )  # fmt: skip


def _told(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode().rstrip("=")


class FakeChangelog:
    """A changelog in memory."""

    topic = TOPIC
    partitions = range(PARTITIONS)
    facts = TopicFacts(TOPIC, "id", PARTITIONS, 86_400_000)

    def __init__(self, log: list[list[LogRecord]]) -> None:
        self._log = log

    def first(self, partition: int) -> int:
        del partition
        return 0

    def committed(self, partition: int) -> tuple[int, int]:
        return 0, self.stable_end(partition)

    def stable_end(self, partition: int) -> int:
        return self._log[partition][-1].offset + 1

    def scan(self, partition: int, start: int, end: int) -> Iterator[LogRecord]:
        return (record for record in self._log[partition] if start <= record.offset < end)


class FakeTopics:
    """The topics of a world."""

    def __init__(self, world: World) -> None:
        self._ends = {TOPIC: {partition: world.end(partition) for partition in range(PARTITIONS)}, "pos": {0: 10}}

    def names(self) -> list[str]:
        return list(self._ends)

    def partition_counts(self, names: Any) -> dict[str, int]:
        return {name: len(self._ends[name]) for name in names}

    def ids(self, names: Any) -> dict[str, str]:
        return dict.fromkeys(names, CHANGELOG_ID)

    def committed_end(self, names: Any) -> Position:
        return Position({name: self._ends[name] for name in names})


def made(run_dir: Path) -> World:
    """A world of sixty customers, who bought several times, and some of whom were deleted."""
    draw = random.Random(11)
    log: list[list[LogRecord]] = [[] for _ in range(PARTITIONS)]
    totals = [0] * PARTITIONS
    for batch in range(LAST_BATCH + 1):
        for number in range(batch * _RECORDS, (batch + 1) * _RECORDS):
            card = draw.randrange(60)
            key = b"card-%03d" % card
            partition = partition_for(key, PARTITIONS)
            value = None if number % 17 == 5 else value_of(card, number + 1)
            record = LogRecord(len(log[partition]), 1_600_000_000_000 + number, key, value, headers_of(batch))
            log[partition].append(record)
            totals[partition] += 1
        for partition, records in enumerate(log):
            count = (CHANGES, b"%d" % totals[partition])
            records[-1] = records[-1]._replace(headers=[*records[-1].headers, count])
    _clean_up(log[0], LAST_BATCH - 4)
    return World(run_dir, log).fill()


def _clean_up(records: list[LogRecord], batch: int) -> None:
    """Deletes a key behind a batch, that of its first record which no later batch changes."""
    ids = {b"%d" % number for number in range(batch + 1)}
    later = {one.key for one in records if dict(one.headers)[BATCH_ID] not in ids}
    old = next(one for one in records if one.value and one.key not in later)
    end = next(place for place, one in enumerate(records) if dict(one.headers)[BATCH_ID] not in ids)
    headers = cleanup_headers(old.headers, "c", CleanupAction.DELETE, time_of(batch) + 1000)
    records.insert(end, LogRecord(0, time_of(batch), old.key, None, headers))
    records[:] = [one._replace(offset=offset) for offset, one in enumerate(records)]
