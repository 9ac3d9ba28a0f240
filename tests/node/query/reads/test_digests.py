"""The digest route of a node, on real replicas."""

from __future__ import annotations

import asyncio
import base64
import itertools
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.waiting import eventually
from storekeeper.changelog.batch import PartitionBatch
from storekeeper.changelog.restore import LogState
from storekeeper.clock import SystemClock
from storekeeper.node.query.reads.cooperative_scheduler import finished
from storekeeper.node.query.routes.internal import digest_of
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_storage import RocksDBStorage
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.stores.row import ReplicaRow
from storekeeper.stores.row_digest import BUCKETS, bucket_of, from_hex, stored_row_hash, to_hex
from tests.changelog.messages import Record
from tests.node.query.cluster import Cluster
from tests.node.replicas.recording import RecordingListener


def stored(rows: Iterable[tuple[bytes, bytes]]) -> int:
    """The digest of rows of schema version 1 and time 0."""
    return sum(stored_row_hash(key, value, 0, 1) for key, value in rows) % 2**64


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
    assert found["digest"] == to_hex(stored(rows.items()))
    assert sum(map(from_hex, found["buckets"])) % 2**64 == stored(rows.items())
    assert len(found["buckets"]) == BUCKETS
    told = {base64.urlsafe_b64decode(key + "=="): from_hex(entry) for key, entry in found["entries"]}
    assert told == {key: stored_row_hash(key, value, 0, 1) for key, value in rows.items() if bucket_of(key) in {3, 5}}

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
        found = finished(digest_of(replica))
        seen.add(found.offset)
        newest = range(max(0, found.offset - keys), found.offset)
        assert found.digest == stored((b"k%d" % (offset % keys), value_at(offset)) for offset in newest)
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
    read: list[str] = []

    class Counted:
        """The first scan never ends, the others have no rows."""

        @contextmanager
        def scan_at_offset(self) -> Iterator[tuple[int, Iterator[tuple[bytes, ReplicaRow]]]]:
            number = len(read) // 2
            read.append(f"{number} begins")
            try:
                yield 0, itertools.repeat((b"k", ReplicaRow(0, 0, b"v"))) if number == 0 else iter(())
            finally:
                read.append(f"{number} ends")

    monkeypatch.setattr(
        "storekeeper.node.query.routes.internal.digest_of",
        lambda _, wanted: digest_of(Counted(), wanted),  # type: ignore[arg-type]
    )
    cluster = Cluster(partitions=1, nodes=("a",))

    async def ask() -> None:
        first = asyncio.create_task(cluster.get("a", "/state/digest/rewards/0"))
        while not read:  # noqa: ASYNC110 - it begins within a few rounds of the loop
            await asyncio.sleep(0)
        waiting = [asyncio.create_task(cluster.get("a", "/state/digest/rewards/0")) for _ in range(9)]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        # One is under way and seven wait. The others are refused.
        assert {task.result().status_code for task in done} == {429}
        assert read == ["0 begins"]
        first.cancel()
        async with asyncio.timeout(30):
            answers = await asyncio.gather(*waiting)
        assert sorted(answer.status_code for answer in answers) == [*[200] * 7, *[429] * 2]

    asyncio.run(ask())
    assert read == [f"{number} {step}" for number in range(8) for step in ("begins", "ends")]


def test_a_replica_that_verification_found_wrong_is_given_to_the_follower_to_set_aside() -> None:
    cluster = Cluster(partitions=1, nodes=("a", "b"))
    (holder,) = [name for name, node in cluster.nodes.items() if ReplicaId("rewards", 0) in node.replicas]
    replica = cluster.nodes[holder].replicas[ReplicaId("rewards", 0)]
    other = "b" if holder == "a" else "a"
    path = "/internal/repair/rewards/0"
    assert asyncio.run(cluster.post(other, path)).status_code == 421
    assert asyncio.run(cluster.post(holder, path)).status_code == 202
    assert replica.damaged, "the follower sets it aside"
    replica.damaged = False
    replica.goes_by("id", "its topic was deleted")
    refused = asyncio.run(cluster.post(holder, path))
    assert refused.status_code == 503
    assert vars(replica)["damaged"] is False
    assert "the last copy" in refused.text


def test_a_replica_whose_rows_are_erased_is_awaited_until_it_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storekeeper.node.query.routes.internal._RENEWED_LOOKS", 3)
    cluster = Cluster(partitions=1, nodes=("a",))
    replica, path = cluster.nodes["a"].replicas[ReplicaId("rewards", 0)], "/internal/renew/rewards/0"
    assert asyncio.run(cluster.post("a", path)).status_code == 503, "its follower has not opened it yet"
    assert (replica.damaged, replica.is_unwanted) == (True, True)

    async def renewed() -> int:
        asking = asyncio.create_task(cluster.post("a", path))
        await asyncio.sleep(0)
        while not asking.done():
            replica.damaged = False
            await asyncio.sleep(0)
        return (await asking).status_code

    assert asyncio.run(renewed()) == 204


@pytest.mark.parametrize(("order", "status"), [("repair", 202), ("renew", 503)])
def test_the_replica_of_the_generation_that_answers_is_the_one_that_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, order: str, status: int
) -> None:
    monkeypatch.setattr("storekeeper.node.query.routes.internal._RENEWED_LOOKS", 1)
    cluster = Cluster(partitions=1, nodes=("a",))
    catalog, old = cluster.nodes["a"].catalog, ReplicaId("rewards", 0)
    live = cluster.nodes["a"].replicas[ReplicaId("players", 0)]
    catalog.serving = {"rewards": "rewards@new"}
    catalog.replicas = {old: catalog.replicas[old], ReplicaId("rewards@new", 0): live}
    assert asyncio.run(cluster.post("a", f"/internal/{order}/rewards/0")).status_code == status
    assert (live.damaged, catalog.replicas[old].damaged) == (True, False)
