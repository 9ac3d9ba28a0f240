"""The digest route of a node, on real replicas."""

from __future__ import annotations

import asyncio
import base64
import threading
from pathlib import Path

from state.changelog.batch import PartitionBatch
from state.changelog.restore import LogState
from state.clock import SystemClock
from state.query.digests import BUCKETS, bucket_of, digest_of
from state.replicas.places import RocksDBPlace
from state.replicas.replica import Replica
from state.replicas.states import ReplicaId
from state.snapshots.digest import digest, entry_hash, from_hex, to_hex
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
    place = RocksDBPlace(tmp_path, clock)
    replica = Replica(ReplicaId("s", 0), "s-log", place=place, clock=clock, listener=RecordingListener())
    replica.open(LogState("s-log", "id", 0, 0, 0, 86_400_000))
    replica.apply(PartitionBatch("s-log", 0, [], 0, end_reached=True))
    batches, keys = 300, 20

    def value_at(offset: int) -> bytes:
        return b"%d" % offset

    def write() -> None:
        for number in range(batches):
            offsets = range(number * keys, (number + 1) * keys)
            records = [Record(offset, b"k%d" % (offset % keys), value_at(offset)) for offset in offsets]
            replica.apply(PartitionBatch("s-log", 0, records, offsets.stop, end_reached=True))

    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    while writer.is_alive():
        found = digest_of(replica)
        seen.add(found.offset)
        newest = range(max(0, found.offset - keys), found.offset)
        assert found.digest == digest((b"k%d" % (offset % keys), value_at(offset)) for offset in newest)
    writer.join()
    replica.close()
    assert len(seen) > 3
