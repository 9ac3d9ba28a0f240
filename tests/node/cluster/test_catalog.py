"""When a node trusts its own replica, and where it sends those who ask for what it doesn't hold."""

from __future__ import annotations

from pathlib import Path

from storekeeper.clock import ManualClock
from storekeeper.node.cluster.assignment import Assignment
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.cluster.heartbeat import ReplicaReport
from storekeeper.node.cluster.routing import Tolerance, routing_table
from storekeeper.node.cluster.view import Member
from storekeeper.node.query.answers.answer import problem_of
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_storage import RocksDBStorage
from storekeeper.protocol.replica_states import ReplicaId, ReplicaRole, ReplicaState
from storekeeper.stores.store_definitions import StoreDefinition
from tests.node.replicas.recording import RecordingListener

REPLICA = ReplicaId("s", 0)


def made(tmp_path: Path, *, other_serves: bool = True) -> tuple[Catalog, Replica]:
    clock = ManualClock(1000)
    catalog = Catalog("a", {"a": "http://a"}, {"s": StoreDefinition("s", "t")}, acceptable_staleness_ms=2000)
    place = RocksDBStorage(tmp_path, clock)
    replica = Replica(REPLICA, "t", storage=place, clock=clock, listener=RecordingListener())
    report = ReplicaReport(REPLICA, ReplicaRole.STANDBY, ReplicaState.RUNNING, other_serves, 1, 0, 0)
    members = [Member("a", "http://a", heard=True), Member("b", "http://b", heard=True, replicas=(report,))]
    catalog.follow(routing_table(Assignment(("a", "b"), {"s": 1}, 1), members, Tolerance()), {REPLICA: replica})
    return catalog, replica


def test_a_replica_that_is_known_to_be_fresh_answers(tmp_path: Path) -> None:
    catalog, replica = made(tmp_path)
    replica.tracker.saw_end(replica.tracker.request(10.0), 0)
    assert catalog.answers_best(replica, 11.9)


def test_after_a_pause_of_the_process_others_are_asked_first(tmp_path: Path) -> None:
    catalog, replica = made(tmp_path)
    replica.tracker.saw_end(replica.tracker.request(10.0), 0)
    assert not catalog.answers_best(replica, 70.0)


def test_nobody_is_asked_who_cannot_know_better(tmp_path: Path) -> None:
    catalog, replica = made(tmp_path, other_serves=False)
    assert catalog.answers_best(replica, 70.0)
    catalog, replica = made(tmp_path)
    catalog.nobody_is_fresher(70.0)
    assert catalog.answers_best(replica, 70.5)
    assert not catalog.answers_best(replica, 71.5)


def test_whoever_asks_for_what_is_not_held_is_told_who_has_it(tmp_path: Path) -> None:
    catalog, _ = made(tmp_path)
    problem = problem_of(catalog.not_held("s", 0))
    assert (problem.status, problem.details) == (421, {"holders": ["b"], "epoch": catalog.epoch})
