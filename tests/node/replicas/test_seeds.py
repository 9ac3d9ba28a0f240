"""What begins with a table and reads the tail has the rows of a replay; whatever is wrong, a replay is left."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storekeeper.changelog.checkpoint import METADATA_KEY, Checkpoint
from storekeeper.changelog.position import Position
from storekeeper.changelog.restore import RestoreAction, RestoreReason
from storekeeper.clock import ManualClock
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_storage import RocksDBStorage
from storekeeper.node.replicas.seeds import Seeding
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.snapshots import seeds as table_seeds
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.seed_tables import SeedTables
from storekeeper.stores.row import decode_row
from tests.changelog.messages import Record
from tests.node.replicas.fake_log import FakeLog
from tests.node.replicas.recording import RecordingListener
from tests.snapshot_tables import Row, manifest_of, write_snapshot

NOW_MS = 1_760_000_000_000
PARTITIONS = 2
TABLE_AT = 60
"""The records of each partition that are in the table."""
VERSION = 3
HEADERS = (("schema-version", b"3"),)


class World:
    """A changelog, the table of its beginning, and the disk of a node."""

    def __init__(self, root: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.log = FakeLog(PARTITIONS, page=7)
        self.clock = ManualClock(NOW_MS)
        self.root = root
        self.storage = RocksDBStorage(root / "state", self.clock)
        self.replicas = [ReplicaId("rewards", partition) for partition in range(PARTITIONS)]
        for partition in range(PARTITIONS):
            for at in range(100):
                self._append(partition, at)

    def _append(self, partition: int, at: int) -> None:
        key = b"k%d" % self.rng.randrange(40)
        value = None if self.rng.random() < 0.2 else b"v%d" % self.rng.randrange(10**6)
        self.log.records[partition].append(Record(at, key, value, NOW_MS - self.rng.randrange(10**6), HEADERS))

    def write_table(self, **changes: Any) -> SnapshotManifest:
        """The table as of `TABLE_AT`, which was whole a minute ago."""
        rows = []
        for partition, records in self.log.records.items():
            newest = {record.record_key: record for record in records[:TABLE_AT]}
            rows += [
                Row(partition, record.at, record.at_ms, record.record_key, record.record_value)
                for record in newest.values()
                if record.record_key is not None and record.record_value is not None
            ]
        told = {
            "store": "rewards",
            "changelog_topic": "t",
            "changelog_id": "id-1",
            "changelog_offsets": dict.fromkeys(range(PARTITIONS), TABLE_AT),
            "schema_version": VERSION,
            "one_version": True,
            "batch_ms": NOW_MS - 60_000,
        }
        manifest = manifest_of(rows, **(told | changes))
        return write_snapshot(self.root / "delta" / "rewards", rows, manifest=manifest)

    def compacted(self) -> None:
        """What the log cleaner may do: of each key the newest record is left. It doesn't move the log's start."""
        for partition, records in self.log.records.items():
            newest = {record.record_key: record.at for record in records}
            kept = (record for record in records if record.at in {0, newest[record.record_key]})
            self.log.records[partition] = list(kept)

    def load(self) -> list[int]:
        """The partitions that began with the table."""
        place = SeedTables(str(self.root / "delta"), str(self.root / "seals"))
        seeding = Seeding(place, self.storage, self.log, self.clock)
        return [replica.partition for replica in seeding.load((replica, "t") for replica in self.replicas)]

    def opened(self, storage: RocksDBStorage, partition: int) -> tuple[Replica, RestoreAction, RestoreReason]:
        replica = Replica(
            self.replicas[partition], "t", storage=storage, clock=self.clock, listener=RecordingListener()
        )
        plan = replica.open(self.log.log_state(self.log.facts("t"), partition))
        return replica, plan.action, plan.reason

    def followed(self, storage: RocksDBStorage) -> tuple[list[dict[bytes, bytes]], list[int]]:
        """The stored rows of each partition once it has reached the end, and from where it was read."""
        stored, begun = [], []
        for partition, replica_id in enumerate(self.replicas):
            replica, *_ = self.opened(storage, partition)
            begun.append(replica.offset or 0)
            self.log.add("t", partition, replica.offset or 0)
            while replica.offset != self.log.end(partition):
                for batch in self.log.read(0):
                    replica.apply(batch)
            self.log.remove("t", partition)
            assert replica.serving
            replica.close()
            store = storage.open(replica_id)
            with store.scan(None, None) as rows:
                stored.append(dict(rows))
            store.close()
        return stored, begun

    def replayed(self) -> list[dict[bytes, bytes]]:
        """The rows of a replay from the log's start."""
        return self.followed(RocksDBStorage(self.root / f"replay-{self.rng.random()}", self.clock))[0]

    def checkpoint(self, partition: int) -> Checkpoint | None:
        store = self.storage.open(self.replicas[partition])
        try:
            stored = store.metadata(METADATA_KEY)
        finally:
            store.close()
        return None if stored is None else Checkpoint.decode(stored)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, 7)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("before", [None, 0, 14], ids=["new", "begun", "stale"])
def test_the_rows_are_those_of_a_replay_to_the_bit(tmp_path: Path, seed: int, before: int | None) -> None:
    world = World(tmp_path, seed)
    world.write_table()
    if before is not None:  # a node has opened it, and it has followed the log for some time
        for partition in range(PARTITIONS):
            replica, *_ = world.opened(world.storage, partition)
            if before:
                world.log.add("t", partition, 0)
                while (replica.offset or 0) < before:
                    for batch in world.log.read(0):
                        replica.apply(batch)
                world.log.remove("t", partition)
            replica.close()
    expected = world.replayed()
    assert world.load() == [0, 1]
    rows, begun = world.followed(world.storage)
    assert rows == expected
    assert begun == [TABLE_AT, TABLE_AT], "only the tail was read"
    assert {decode_row(row).schema_version for row in rows[0].values()} == {VERSION}


def test_a_seed_and_a_tail_of_a_compacted_log_leave_no_deleted_row(world: World) -> None:
    world.write_table()
    expected = world.replayed()
    world.compacted()
    assert world.load() == [0, 1]
    assert world.followed(world.storage)[0] == expected


def test_a_replica_tells_the_input_and_the_age_of_its_table(world: World) -> None:
    world.write_table(source_offsets=Position({"pos": {0: 41, 1: 7}}))
    world.load()
    checkpoint = world.checkpoint(1)
    assert checkpoint is not None
    assert (checkpoint.offset, checkpoint.whole_at_ms) == (TABLE_AT, NOW_MS - 60_000)
    assert checkpoint.source == {"pos": {0: (41, 41), 1: (7, 7)}}


@pytest.mark.parametrize(
    "changes",
    [
        {"changelog_topic": "t-g2"},
        {"changelog_id": "id-0"},
        {"batch_ms": NOW_MS - 86_400_000},
        {"changelog_offsets": {0: 101, 1: 101}},
        {"one_version": False},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_table_that_does_not_fit_is_left_alone(world: World, changes: dict[str, Any]) -> None:
    world.write_table(**changes)
    expected = world.replayed()
    replica, *_ = world.opened(world.storage, 0)
    replica.close()
    assert world.load() == []
    assert world.checkpoint(0) is not None, "the rows that are there stay"
    rows, begun = world.followed(world.storage)
    assert (rows, begun) == (expected, [0, 0])


def test_a_tail_that_is_deleted_is_missed(world: World) -> None:
    world.write_table()
    for partition in range(PARTITIONS):
        replica, *_ = world.opened(world.storage, partition)
        replica.close()
        del world.log.records[partition][: TABLE_AT + 1]
    assert world.load() == []


def test_a_table_that_is_not_as_it_was_sealed_is_left_alone(world: World) -> None:
    world.write_table()
    file = next((world.root / "delta" / "rewards").glob("*.parquet"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    expected = world.replayed()
    assert world.load() == []
    assert world.followed(world.storage) == (expected, [0, 0])


def test_rows_that_may_be_the_last_copy_stay(world: World) -> None:
    """Kafka lost records: the node decides, with its rows."""
    world.write_table()
    replica, *_ = world.opened(world.storage, 0)
    world.log.add("t", 0, 0)
    while replica.offset != 100:
        for batch in world.log.read(0):
            replica.apply(batch)
    replica.close()
    del world.log.records[0][80:]
    assert world.load() == [1]
    checkpoint = world.checkpoint(0)
    assert checkpoint is not None
    assert checkpoint.offset == 100


def test_rows_of_another_topic_stay_though_the_table_is_of_this_one(world: World) -> None:
    replica, *_ = world.opened(world.storage, 0)
    replica.close()
    world.log.topic_id = "id-2"
    world.write_table(changelog_id="id-2")
    assert world.load() == [1]
    checkpoint = world.checkpoint(0)
    assert checkpoint is not None
    assert checkpoint.topic_id == "id-1"


@pytest.mark.parametrize("rows_before", [0, 1])
def test_what_a_crash_leaves_half_loaded_is_replayed(
    world: World, monkeypatch: pytest.MonkeyPatch, rows_before: int
) -> None:
    world.write_table()
    whole = table_seeds.TableSeed.rows

    def torn(self: table_seeds.TableSeed, partitions: Any) -> Iterator[Any]:
        for partition, entries in whole(self, partitions):
            yield partition, entries[:rows_before]
            raise SystemError("the disk was pulled out")

    expected = world.replayed()
    for partition in range(PARTITIONS):  # as a node has, which then gives the store to a worker
        opened, *_ = world.opened(world.storage, partition)
        opened.close()
    monkeypatch.setattr(table_seeds.TableSeed, "rows", torn)
    assert world.load() == []
    replica, action, reason = world.opened(world.storage, 0)
    replica.close()
    torn_one = (RestoreAction.WIPE, RestoreReason.NO_CHECKPOINT)
    assert (action, reason) == (torn_one if rows_before else (RestoreAction.REPLAY, RestoreReason.EMPTY))
    assert world.followed(world.storage) == (expected, [0, 0])


def test_without_a_table_nothing_is_touched(world: World) -> None:
    assert world.load() == []
    assert world.followed(world.storage)[1] == [0, 0]
