"""When a node says that it is ready."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from storekeeper.errors import ChangelogError
from storekeeper.node.cluster.assignment import Assignment
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.cluster.routing import Tolerance, routing_table
from storekeeper.node.cluster.view import Member
from storekeeper.node.query.observing.health import readiness
from storekeeper.node.replicas import ranked_index
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.stores.store_definitions import StoreDefinition
from tests.changelog.bad_records import KINDS, SKIPPED
from tests.changelog.messages import Record
from tests.node.query.cluster import Cluster, Node
from tests.node.replicas.recording import batch

MEMBERS = [Member(name, f"http://{name}", heard=True) for name in "ab"]


def catalog_of(nodes: Sequence[str]) -> Catalog:
    """Of node `b`, which holds nothing yet."""
    found = Catalog("b", {"b": "http://b"}, {"s": StoreDefinition("s", "t")})
    found.follow(routing_table(Assignment(nodes, {"s": 1}, 0), MEMBERS, Tolerance()), {})
    return found


def test_a_newcomer_is_not_ready_before_it_is_counted_on() -> None:
    found = readiness(catalog_of(["a"]))
    assert (found.ready, "just joined" in found.reason) == (False, True)
    assert readiness(catalog_of(["a", "b"])).ready


@pytest.fixture
def node() -> Node:
    """A node with two partitions of a ranked store, all of which answer."""
    return Cluster(nodes="a", partitions=2, stores="players=p-log:ranked:Score").nodes["a"]


def test_a_replica_that_failed_is_missed_although_it_answers_and_others_do(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert readiness(node.catalog).ready
    monkeypatch.setattr(Catalog, "others_ready", lambda *_: True)
    replica = node.replicas[ReplicaId("players", 1)]
    replica.fail(ChangelogError("the changelog topic p-log doesn't exist"))
    assert replica.serving
    found = readiness(node.catalog)
    assert (found.ready, "players-1: the changelog topic p-log doesn't exist" in found.reason) == (False, True)
    replica.resume()
    assert readiness(node.catalog).ready


def test_a_replica_that_can_not_serve_is_missed_unless_another_node_answers_for_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert readiness(node.catalog).ready
    node.replicas[ReplicaId("players", 1)].restore_in_worker()
    assert not readiness(node.catalog).ready
    monkeypatch.setattr(Catalog, "others_ready", lambda *_: True)
    assert readiness(node.catalog).ready


def test_skipped_records_leave_a_node_ready_and_are_told(node: Node) -> None:
    replica = node.replicas[ReplicaId("players", 1)]
    replica.apply(batch([kind.record(offset) for offset, kind in enumerate(KINDS)], end=True))
    found = readiness(node.catalog)
    assert found.ready
    assert f"{len(SKIPPED)} changelog records are skipped in 1 replicas: see `storekeeper skipped`" in found.reason


def test_a_ranking_that_is_not_whole_is_missed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranked_index, "score_of", lambda *_: 1 // 0)
    node.replicas[ReplicaId("players", 0)].apply(batch([KINDS[-1].record(0)], end=True))
    assert readiness(node.catalog).ready, "a tombstone has no score to look for"
    node.replicas[ReplicaId("players", 0)].apply(batch([Record(1, b"k", b"{}")], end=True))
    found = readiness(node.catalog)
    assert (found.ready, "players-0: the ranking by Score failed" in found.reason) == (False, True)
