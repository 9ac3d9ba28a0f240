"""A store with all of its copies, and the ways in which one of them comes to be wrong, or only looks as if it were.

The table, its seal and the local stores are real files, the node and the changelog are in memory.
"""

from __future__ import annotations

import base64
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
from deltalake import CommitProperties, DeltaTable, write_deltalake

from spark_apps.pos import POS
from storekeeper.apps.settings import SnapshotSettings
from storekeeper.changelog.checkpoint import METADATA_KEY, Checkpoint
from storekeeper.changelog.log_record import LogRecord
from storekeeper.changelog.partitioner import partition_for
from storekeeper.changelog.position import Position
from storekeeper.changelog.reader import TopicFacts
from storekeeper.clock import SystemClock
from storekeeper.engine.local_store import _OWN_END
from storekeeper.generations.live import live_topology
from storekeeper.snapshots.columns import StoreValues
from storekeeper.snapshots.seal import SealedTable
from storekeeper.snapshots.table_upkeep import HOUR_MS, keep_up
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.stores.rocksdb_sealed import open_sealed
from storekeeper.stores.row import ReplicaRow
from storekeeper.stores.row_digest import BUCKETS, bucket_of, stored_row_hash, to_hex
from storekeeper.topology.records import StoreChange
from storekeeper.topology.task_stores import restore
from storekeeper.verification import verify
from storekeeper.verification.check_verdict import CheckVerdict
from storekeeper.verification.node_copies import NodeCopies
from tests.snapshot_tables import Row, arrow_rows, manifest_of, write_snapshot
from tests.snapshots.attacks import (
    BEHIND_THE_ROWS,
    commit_lost,
    deleted,
    edited,
    file_cut,
    file_lost,
    inserted,
    log_cut,
    log_lost,
    overwritten,
    updated,
    with_a_copied_manifest,
    without_data_change,
)

PARTITIONS = 2
REWARDS = POS.stores[0]
TOPIC = REWARDS.changelog_topic
HEADERS = (("schema-version", b"%d" % REWARDS.schema_version), ("batch-id", b"3"))
Draw = random.Random


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

    @property
    def settings(self) -> SnapshotSettings:
        return SnapshotSettings(run_dir=self.run_dir, kafka_bootstrap="127.0.0.1:1", peers="a=http://a")

    @property
    def table(self) -> Path:
        return self.run_dir / "delta" / "rewards"

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

    def snapshot(self, back: int, *, manifest_only: bool = False) -> tuple[list[Row], Any]:
        """Takes a snapshot of all but the last `back` records of each partition; returns its rows and its manifest."""
        ends = {partition: self.end(partition) - back for partition in range(PARTITIONS)}
        rows = [
            Row(partition, record.offset, record.timestamp_ms, key, record.value or b"")
            for partition, end in ends.items()
            for key, record in self.newest(partition, end).items()
        ]
        bare = manifest_of(rows, store="rewards", app="pos", changelog_topic=TOPIC, changelog_offsets=ends,
                           source_offsets=Position({"pos": {0: 10}}), schema_version=REWARDS.schema_version,
                           kind=REWARDS.kind)  # fmt: skip
        manifest = replace(bare, digests=dict.fromkeys(ends, 0) | dict(bare.digests))
        if not manifest_only:
            write_snapshot(self.table, rows, REWARDS.value_fields, manifest=manifest)
        return rows, manifest

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
        self.snapshot(40)
        self.snapshot(20)
        return self

    def copied(self, run_dir: Path) -> World:
        """A world of its own."""
        shutil.copytree(self.run_dir, run_dir)
        log, node = [list(records) for records in self.log], [dict(rows) for rows in self.node]
        return World(run_dir, log, node, ends=[*self.ends])

    def verdict(self, patch: Any) -> CheckVerdict:
        """What `storekeeper verify rewards` says."""
        patch.setattr(verify, "Changelog", lambda *_: FakeChangelog(self.log))
        patch.setattr(verify, "Topics", lambda *_: FakeTopics(self))
        transport = httpx2.MockTransport(self._answer)
        patch.setattr(verify, "NodeCopies", lambda known, found: NodeCopies(known, found, transport=transport))
        return verify.verify_store("rewards", self.settings)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/state/cluster":
            return httpx2.Response(200, json={"members": [{"name": "a", "address": "http://a"}]})
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

    def committed_end(self, names: Any) -> Position:
        return Position({name: self._ends[name] for name in names})


def made(run_dir: Path) -> World:
    """A world of sixty customers, who bought several times, and some of whom were deleted."""
    draw = Draw(11)
    log: list[list[LogRecord]] = [[] for _ in range(PARTITIONS)]
    for number in range(300):
        card = draw.randrange(60)
        key = b"card-%03d" % card
        records = log[partition_for(key, PARTITIONS)]
        value = None if number % 17 == 5 else value_of(card, number + 1)
        records.append(LogRecord(len(records), 1_700_000_000_000 + number, key, value, HEADERS))
    return World(run_dir, log).fill()


Change = Callable[[World, Draw], object]


def _of_table(attack: Callable[[Path], object]) -> Change:
    return lambda world, _: attack(world.table)


def _any_file(world: World, draw: Draw) -> Path:
    return draw.choice(sorted(file for file in world.table.rglob("*") if file.is_file()))


def _flip(file: Path, draw: Draw) -> None:
    content = bytearray(file.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def _forged(world: World, draw: Draw) -> None:
    """Rows and a manifest that fit each other, as somebody writes who knows how."""
    rows, manifest = world.snapshot(20, manifest_only=True)
    place = draw.randrange(len(rows))
    rows[place] = rows[place]._replace(value=value_of(place, 999_999))
    forged = replace(manifest, digests=manifest_of(rows).digests)
    values = StoreValues(REWARDS.value_fields)
    write_deltalake(
        world.table,
        arrow_rows(rows, values.columns_of(forged), values),
        mode="overwrite",
        commit_properties=CommitProperties(custom_metadata={"userMetadata": forged.to_json()}),
    )


def _older_seal(world: World, _: Draw) -> None:
    older = replace(world.sealed.read() or _none(), version=0)
    world.seal.write_bytes(replace(older, files=dict([*older.files.items()][:2])).to_json())


def _none() -> Any:
    raise AssertionError


def _of_node(change: Callable[[dict[bytes, ReplicaRow], bytes, bytes], object]) -> Change:
    """A change of the node's rows, by two of its keys."""

    def attack(world: World, draw: Draw) -> None:
        rows = draw.choice(world.node)
        change(rows, *draw.sample(sorted(rows), 2))

    return attack


def _swap(rows: dict[bytes, ReplicaRow], one: bytes, other: bytes) -> None:
    rows[one], rows[other] = rows[other], rows[one]


def _set(**changes: Any) -> Callable[[dict[bytes, ReplicaRow], bytes, bytes], object]:
    return lambda rows, key, _: rows.update({key: replace(rows[key], **changes)})


def _of_local(change: Callable[[Any, bytes, bytes], object], opened: Callable[..., Any] = open_sealed) -> Change:
    """A change of a task's rows by another program: a key, and its value."""

    def attack(world: World, draw: Draw) -> None:
        store = opened(world.folder(draw.randrange(PARTITIONS)), "rewards")
        with store.scan(None, None) as rows:
            key, value = draw.choice(list(rows))
        change(store, key, value)
        store.close()

    return attack


def _of_log(change: Callable[[list[LogRecord], int], object]) -> Change:
    """A change of the changelog, at the newest record of a key that has a row in all copies."""

    def attack(world: World, draw: Draw) -> None:
        partition = draw.randrange(PARTITIONS)
        settled = world.newest(partition, world.end(partition) - 41)
        newest = world.newest(partition, world.end(partition))
        offset = draw.choice(sorted(one.offset for key, one in settled.items() if newest.get(key) == one))
        records = world.log[partition]
        change(records, next(place for place, record in enumerate(records) if record.offset == offset))

    return attack


def _replaced(**changes: Any) -> Callable[[list[LogRecord], int], object]:
    return lambda records, place: records.__setitem__(place, records[place]._replace(**changes))


_NONE_HERE = ("a comment", "OPTIMIZE")
"""This table has other columns, and one file."""
_BEHIND = {name: attack for name, attack in BEHIND_THE_ROWS.items() if name not in _NONE_HERE}

FAULTS: dict[str, tuple[Change, str]] = {
    **{name: (_of_table(attack), "table rewards") for name, attack in _BEHIND.items()},
    "a typed column edited": (_of_table(edited("InvoiceCount", 99)), "table rewards"),
    "an amount edited": (_of_table(edited("TotalLoyaltyPoints", Decimal("9.0000"))), "table rewards"),
    "a key edited": (_of_table(edited("_key", b"mallory")), "table rewards"),
    "a value edited": (_of_table(edited("_value", b"{}")), "table rewards"),
    "an offset edited": (_of_table(edited("_offset", 10**12)), "table rewards"),
    "a time edited": (_of_table(edited("_timestamp_ms", 1)), "table rewards"),
    "a partition edited": (_of_table(edited("_partition", 1)), "table rewards"),
    "UPDATE": (_of_table(updated("InvoiceCount", "InvoiceCount + 1")), "table rewards"),
    "DELETE": (_of_table(deleted("_partition = 1")), "table rewards"),
    "INSERT": (_of_table(inserted), "table rewards"),
    "overwrite": (_of_table(overwritten), "table rewards"),
    "a copied manifest": (_of_table(with_a_copied_manifest), "table rewards"),
    "a removal without data change": (_of_table(without_data_change), "table rewards"),
    "an empty commit": (_of_table(log_cut(0)), "table rewards"),
    "a torn commit": (_of_table(log_cut(0.5)), "table rewards"),
    "a lost commit": (_of_table(commit_lost), "table rewards"),
    "a lost log": (_of_table(log_lost), "table rewards"),
    "a lost file": (_of_table(file_lost), "table rewards"),
    "a cut file": (_of_table(file_cut), "table rewards"),
    "a lost table": (lambda world, _: shutil.rmtree(world.table), "table rewards is gone"),
    "a flipped bit in any file": (lambda world, draw: _flip(_any_file(world, draw), draw), "table rewards"),
    "any file lost": (lambda world, draw: _any_file(world, draw).unlink(), "table rewards"),
    "rows and manifest forged": (_forged, "table rewards"),
    "a lost seal": (lambda world, _: world.seal.unlink(), "table rewards has no seal"),
    "a flipped bit in the seal": (lambda world, draw: _flip(world.seal, draw), "table rewards"),
    "a torn seal": (lambda world, _: world.seal.write_bytes(world.seal.read_bytes()[:99]), "has a damaged seal"),
    "an older seal": (_older_seal, "table rewards"),
    "a node's value": (_of_node(_set(value=b"{}")), "node a"),
    "a node's time": (_of_node(_set(timestamp_ms=1)), "node a"),
    "a node's schema version": (_of_node(_set(schema_version=77)), "node a"),
    "a node's row lost": (_of_node(lambda rows, key, _: rows.pop(key)), "node a"),
    "a node's row too much": (_of_node(lambda rows, *_: rows.update({b"mallory": ReplicaRow(1, 1, b"{}")})), "node a"),
    "a node's rows swapped": (_of_node(_swap), "node a"),
    "a node's rows lost": (_of_node(lambda rows, *_: rows.clear()), "node a"),
    "a node ahead of the changelog": (lambda world, _: setattr(world, "ahead", 9), "node a"),
    "a task's value": (_of_local(lambda store, key, value: store.write([(key, value[:-1] + b" }")])), "local store"),
    "a task's row lost": (_of_local(lambda store, key, _: store.write([(key, None)])), "local store"),
    "a task's row too much": (_of_local(lambda store, _, value: store.write([(b"mallory", value)])), "local store"),
    "a task's row without its hash": (
        _of_local(lambda store, key, value: store.write([(key, value[::-1])]), open_rocksdb), "local store",
    ),
    "a changed record": (_of_log(_replaced(value=b"{}")), "partition"),
    "a lost record": (_of_log(lambda records, place: records.pop(place)), "partition"),
    "a record of another time": (_of_log(_replaced(timestamp_ms=1)), "partition"),
    "a record of another schema version": (
        _of_log(_replaced(headers=(("schema-version", b"9"), HEADERS[1]))), "node a",
    ),
    "a foreign record": (_of_log(_replaced(headers=HEADERS[:1])), "records of no batch of the app"),
    "a lost end": (lambda world, _: world.log[0].__delitem__(slice(-5, None)), "it has lost records"),
}  # fmt: skip
"""By name: how a copy becomes wrong, and a part of what names it."""


def _misplaced(world: World, draw: Draw) -> None:
    """A row in a partition where nodes don't look for it, in all copies but the snapshot, which ends before."""
    partition = draw.randrange(PARTITIONS)
    key = next(key for number in range(99) if partition_for(key := b"lost-%d" % number, PARTITIONS) != partition)
    record = LogRecord(world.end(partition), 5, key, value_of(1, 1), HEADERS)
    world.log[partition].append(record)
    world.node[partition][key] = ReplicaRow(REWARDS.schema_version, 5, record.value or b"")
    world.ends[partition] += 1


FAULTS["a record in another partition"] = (_misplaced, "whose keys nodes look for in another partition")


def _compacted(world: World, draw: Draw) -> None:
    """Takes superseded records away, as many as the cleaner came to: it goes from the oldest to the newest."""
    for number, records in enumerate(world.log):
        upto = draw.randrange(len(records))
        newest = {record.key: record.offset for record in records[:upto]}
        world.log[number] = [one for one in records if one.offset >= upto or newest[one.key] == one.offset]


def _later(world: World, draw: Draw) -> None:
    world.snapshot(draw.randrange(1, 19))
    _compacted(world, draw)


def _died(world: World, _: Draw, *, committed: bool) -> None:
    """A writer that died behind its mark, or behind its commit."""
    seal = world.sealed.read() or _none()
    if committed:
        world.snapshot(10)
    world.seal.write_bytes(replace(seal, writing=True).to_json())


def _touched(world: World, draw: Draw) -> None:
    file = _any_file(world, draw)
    os.utime(file)
    file.chmod(0o600)


def _rewritten(file: Path) -> None:
    file.write_bytes(file.read_bytes())


def _moved(world: World, _: Draw) -> None:
    """The table copied back, as from a back-up of the same moment."""
    shutil.copytree(world.table, world.run_dir / "copy")
    shutil.rmtree(world.table)
    shutil.copytree(world.run_dir / "copy", world.table)


HARMLESS: dict[str, Change] = {
    "nothing": lambda *_: None,
    "a file's times and mode": _touched,
    "a file written as it was": lambda world, draw: _rewritten(_any_file(world, draw)),
    "a table moved away and back": _moved,
    "compaction of the changelog": _compacted,
    "another snapshot": lambda world, draw: world.snapshot(draw.randrange(19)),
    "a snapshot and compaction": _later,
    "maintenance": lambda world, _: keep_up(world.sealed, [], now_ms=10**14, history_ms=HOUR_MS),
    "our comment": lambda world, _: _commented(world),
    "a writer that died before its commit": lambda world, draw: _died(world, draw, committed=False),
    "a writer that died after its commit": lambda world, draw: _died(world, draw, committed=True),
}


def _commented(world: World) -> None:
    with world.sealed.writing():
        DeltaTable(world.table).alter.set_column_metadata("InvoiceCount", {"comment": "How many."})
