"""What the replicas of a node have in common."""

from __future__ import annotations

import pytest

from storekeeper.changelog.reader import ReaderSettings
from storekeeper.changelog.restore import LogState
from storekeeper.clock import ManualClock
from storekeeper.kafka.connection import Kafka
from storekeeper.node.replicas.replica_set import ReplicaSet, ReplicaSpec
from storekeeper.node.replicas.replica_storage import MemoryStorage
from storekeeper.protocol.replica_freshness import FreshnessTracker
from storekeeper.protocol.replica_states import ReplicaId, ReplicaRole
from tests.node.replicas.recording import DAY_MS, RecordingListener

ONE, OTHER, APART = ReplicaId("s", 0), ReplicaId("s", 1), ReplicaId("t", 0)
TOPICS = {ONE: "log", OTHER: "log", APART: "another-log"}


@pytest.fixture
def held() -> ReplicaSet:
    made = ReplicaSet(
        [ReplicaSpec(replica, topic, ReplicaRole.ACTIVE) for replica, topic in TOPICS.items()],
        storage=MemoryStorage(),
        reader=ReaderSettings(Kafka("127.0.0.1:1")),
        clock=ManualClock(1000),
        listener=RecordingListener(),
    )
    for replica, topic in TOPICS.items():
        opened(made, replica, f"id of {topic}")
    return made


def opened(held: ReplicaSet, replica: ReplicaId, topic_id: str) -> FreshnessTracker:
    found = held.replicas[replica]
    found.open(LogState(TOPICS[replica], topic_id, replica.partition, 0, 0, DAY_MS))
    return found.tracker


def source(tracker: FreshnessTracker, end_asked_at_s: float) -> int | None:
    """The source position once the end of an empty log is known."""
    tracker.saw_end(tracker.request(end_asked_at_s), 0)
    return tracker.source().offset("pos", 0)


def test_what_is_written_by_the_same_batches_shares_what_is_seen_of_them(held: ReplicaSet) -> None:
    held.replicas[ONE].tracker.moved(1, {"pos": {0: (100, 200)}}, 10.0)
    reached = {replica: source(held.replicas[replica].tracker, 10.5) for replica in (OTHER, APART)}
    assert reached == {OTHER: 200, APART: None}


def test_what_was_seen_in_a_changelog_is_not_in_one_that_was_made_anew(held: ReplicaSet) -> None:
    held.replicas[ONE].tracker.moved(1, {"pos": {0: (100, 200)}}, 10.0)
    one, other = opened(held, ONE, "another id"), held.replicas[OTHER].tracker
    assert (source(one, 10.5), source(other, 10.5)) == (None, 200), "the other replica still has its rows"
    other = opened(held, OTHER, "another id")
    one.moved(1, {"pos": {0: (0, 50)}}, 11.0)
    assert source(other, 10.7) is None
    assert source(other, 11.5) == 50
