"""The digest route of a node, on real replicas."""

from __future__ import annotations

import asyncio
import base64
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.waiting import eventually
from state.changelog.batch import PartitionBatch
from state.changelog.restore import LogState
from state.clock import SystemClock
from state.query.reads.digests import BUCKETS, ReplicaDigest, bucket_of, digest_of
from state.query.reads.reader_threads import GivenUpError
from state.replicas.replica import Replica
from state.replicas.replica_storage import RocksDBStorage
from state.replicas.states import ReplicaId
from state.snapshots.digest import digest, entry_hash, from_hex, to_hex
from state.stores.row import ReplicaRow
from tests.state.changelog.messages import Record
from tests.state.query.cluster import Cluster
from tests.state.replicas.recording import RecordingListener


def test_a_node_tells_the_digest_of_what_it_holds_and_the_entries_of_wanted_buckets() -> None:
    cluster = Cluster(partitions=1, nodes=("a", "b"))
    rows = {b"card-%d" % number: b'{"n":%d}' % number for number in range(200)}
    for key, value in rows.items():
        cluster.write("rewards", key, value)
    cluster.write("rewards", b"gone", b"{}")
    cluster.write("rewards", b"gone", None)
    (holder,) = [name for name, node in cluster.nodes.items() if ReplicaId("rewards", 0) in node.replicas]
    other = "b" if holder == "a" else "a"

    found = asyncio.run(cluster.get(holder, "/state/digest/rewards/0?bucket=3&bucket=5")).json()
    assert (found["offset"], found["rows"], found["topic"], found["node"]) == (202, 200, "r-log", holder)
    assert found["digest"] == to_hex(digest(rows.items()))
    assert sum(map(from_hex, found["buckets"])) % 2**64 == digest(rows.items())
    assert len(found["buckets"]) == BUCKETS
    told = {base64.urlsafe_b64decode(key + "=="): from_hex(entry) for key, entry in found["entries"]}
    assert told == {key: entry_hash(key, value) for key, value in rows.items() if bucket_of(key) in {3, 5}}

    assert asyncio.run(cluster.get(other, "/state/digest/rewards/0")).status_code == 421
    assert asyncio.run(cluster.get(holder, "/state/digest/nothing/0")).status_code == 404
    assert asyncio.run(cluster.get(holder, f"/state/digest/rewards/0?bucket={BUCKETS}")).status_code == 400
    many = "&".join(f"bucket={number}" for number in range(9))
    assert asyncio.run(cluster.get(holder, f"/state/digest/rewards/0?{many}")).status_code == 400


def test_the_digest_of_a_replica_that_is_being_written_is_that_of_its_offset(tmp_path: Path) -> None:
    clock = SystemClock()
    place = RocksDBStorage(tmp_path, clock)
    replica = Replica(ReplicaId("s", 0), "s-log", storage=place, clock=clock, listener=RecordingListener())
    replica.open(LogState("s-log", "id", 0, 0, 0, 86_400_000))
    replica.apply(PartitionBatch("s-log", 0, [], 0, end_reached=True))
    keys = 20

    def value_at(offset: int) -> bytes:
        return b"%d" % offset

    enough = threading.Event()

    def write() -> None:
        for number in itertools.takewhile(lambda _: not enough.is_set(), itertools.count()):
            offsets = range(number * keys, (number + 1) * keys)
            records = [Record(offset, b"k%d" % (offset % keys), value_at(offset)) for offset in offsets]
            replica.apply(PartitionBatch("s-log", 0, records, offsets.stop, end_reached=True))

    seen = set()

    def seen_at_several_offsets() -> bool:
        found = digest_of(replica)
        seen.add(found.offset)
        newest = range(max(0, found.offset - keys), found.offset)
        assert found.digest == digest((b"k%d" % (offset % keys), value_at(offset)) for offset in newest)
        return len(seen) > 3

    writer = threading.Thread(target=write)
    writer.start()
    try:
        eventually(seen_at_several_offsets, 30, "digests while rows are written")
    finally:
        enough.set()
        writer.join()
        replica.close()


def test_no_partition_is_read_beside_another_or_when_nobody_waits_for_it_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, over = [threading.Event(), threading.Event()], threading.Event()
    errors: list[Exception] = []

    class Endless:
        @contextmanager
        def scan_at_offset(self) -> Iterator[tuple[int, Iterator[tuple[bytes, ReplicaRow]]]]:
            number = sum(event.is_set() for event in begun)
            begun[number].set()
            # The second one must not begin before the first has ended: that one waits, and in vain.
            assert number == 1 or not begun[1].wait(0.3), "two are read beside one another"
            rows = itertools.repeat((b"k", ReplicaRow(0, 0, b"v")))
            yield 0, itertools.takewhile(lambda _: number == 0 and not over.is_set(), rows)

    def digest_of_endless(_: Replica, wanted: frozenset[int]) -> ReplicaDigest:
        try:
            return digest_of(Endless(), wanted)  # type: ignore[arg-type]
        except (GivenUpError, AssertionError) as error:
            errors.append(error)
            raise

    monkeypatch.setattr("state.query.routes.digests.digest_of", digest_of_endless)
    cluster = Cluster(partitions=1, nodes=("a",))

    async def ask() -> None:
        first = asyncio.create_task(cluster.get("a", "/state/digest/rewards/0"))
        await asyncio.to_thread(begun[0].wait, 30)
        first.cancel()
        async with asyncio.timeout(30):
            assert (await cluster.get("a", "/state/digest/rewards/0")).status_code == 200

    try:
        asyncio.run(ask())
    finally:
        over.set()
    assert [type(error) for error in errors] == [GivenUpError]
