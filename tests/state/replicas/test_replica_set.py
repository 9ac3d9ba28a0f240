"""What the replicas of a node have in common."""

from __future__ import annotations

from state.changelog.reader import ReaderSettings
from state.clock import ManualClock
from state.kafka.connection import Kafka
from state.replicas.replica_set import ReplicaSet, ReplicaSpec
from state.replicas.replica_storage import MemoryStorage
from state.replicas.states import ReplicaId, ReplicaRole
from tests.state.replicas.recording import RecordingListener


def test_what_is_written_by_the_same_batches_shares_what_is_seen_of_them() -> None:
    one, other, apart = ReplicaId("s", 0), ReplicaId("s", 1), ReplicaId("t", 0)
    clock = ManualClock(1000)
    specs = [
        ReplicaSpec(one, "log", ReplicaRole.ACTIVE),
        ReplicaSpec(other, "log", ReplicaRole.ACTIVE),
        ReplicaSpec(apart, "another-log", ReplicaRole.ACTIVE),
    ]
    held = ReplicaSet(
        specs,
        storage=MemoryStorage(),
        reader=ReaderSettings(Kafka("127.0.0.1:1")),
        clock=clock,
        listener=RecordingListener(),
    )
    trackers = {replica: found.tracker for replica, found in held.replicas.items()}
    trackers[one].moved(1, {"pos": {0: (100, 200)}}, 10.0)
    for replica in (other, apart):
        trackers[replica].saw_end(trackers[replica].request(10.5), 0, 0)
    reached = {replica: trackers[replica].source().offset("pos", 0) for replica in (other, apart)}
    assert reached == {other: 200, apart: None}
