"""Which node is asked first."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from storekeeper.changelog.partitioner import partition_for
from storekeeper.client.core import ClientCore
from storekeeper.client.exchange import ClientLimits
from storekeeper.client.nodes import ClusterMap, LatencyEstimate, Nodes
from storekeeper.errors import InvalidArgumentError
from storekeeper.node.cluster.assignment import Assignment
from storekeeper.node.cluster.routing import Tolerance, routing_table
from storekeeper.node.cluster.view import Member
from tests.node.query.cluster import Cluster

A, B, C = "http://a:1", "http://b:1", "http://c:1"
MAP = ClusterMap("e1", {"a": A, "b": B, "c": C}, {"rewards": [["a", "b"], ["b", "c"], ["c", "a"]]})


def test_holders_come_first_in_the_maps_order_then_the_others() -> None:
    nodes = Nodes([A])
    nodes.learn(MAP, 0.0)
    for number in range(30):
        key = b"key-%d" % number
        first, second, third = nodes.in_order("rewards", key, 0.0)
        held = MAP.holders["rewards"][partition_for(key, 3)]
        assert [first, second] == [MAP.addresses[node] for node in held]
        assert {first, second, third} == {A, B, C}
    assert nodes.in_order("other", b"k", 0.0) == [A, B, C]


def test_without_a_key_each_node_has_its_turn() -> None:
    nodes = Nodes([A, B, C])
    assert [nodes.in_order("rewards", None, 0.0)[0] for _ in range(4)] == [A, B, C, A]


def test_a_node_that_fails_is_last_for_a_time_that_grows_and_ends_with_an_answer() -> None:
    nodes = Nodes([A, B])
    nodes.failed(A, 0.0)
    assert nodes.in_order("s", b"k", 0.4) == [B, A]
    assert nodes.in_order("s", b"k", 0.6) == [A, B], "it is given another chance"
    nodes.failed(A, 0.6)
    assert nodes.in_order("s", b"k", 1.5) == [B, A]
    for at_s in range(2, 100, 10):
        nodes.failed(A, float(at_s))
    assert nodes.in_order("s", b"k", 92.0 + 4.9) == [B, A]
    assert nodes.in_order("s", b"k", 92.0 + 5.1) == [A, B], "never for longer than five seconds"
    nodes.failed(A, 100.0)
    nodes.answered(A, 0.01, keyed=True)
    assert nodes.in_order("s", b"k", 100.0) == [A, B]


def test_a_node_that_is_down_for_hours_is_still_asked_last() -> None:
    nodes = Nodes([A, B])
    for at_s in range(0, 6 * 1100, 6):
        nodes.failed(A, float(at_s))
    assert nodes.in_order("s", b"k", at_s + 4.9) == [B, A]
    assert nodes.in_order("s", b"k", at_s + 5.1) == [A, B]


def test_the_nodes_that_it_was_told_of_stay_when_the_map_forgets_them() -> None:
    nodes = Nodes([A])
    nodes.learn(ClusterMap("e2", {"b": B}, {}), 0.0)
    assert nodes.addresses == (A, B)


def test_the_map_is_fetched_after_two_keys_then_rarely_unless_it_is_wrong() -> None:
    nodes = Nodes([A])
    for _ in range(2):
        nodes.in_order("s", b"k", 0.0)
        assert not nodes.take_map_due(0.0)
    nodes.in_order("s", b"k", 0.0)
    assert nodes.take_map_due(0.0)
    assert not nodes.take_map_due(0.0), "one at a time"
    nodes.learn(MAP, 0.1)
    assert not nodes.take_map_due(20.0)
    assert nodes.take_map_due(40.0)
    nodes.learn(MAP, 40.0)
    nodes.saw_epoch("e1")
    assert not nodes.take_map_due(41.0)
    nodes.saw_epoch("e2")
    assert nodes.take_map_due(41.0)
    nodes.learn(MAP, 41.0)
    nodes.misdirected()
    assert nodes.take_map_due(42.0)


def test_answers_after_a_cut_over_leave_the_map_as_it_is() -> None:
    """A store's rows come from another changelog; the map and the answers name the same epoch."""
    cluster = Cluster(nodes=("a",), partitions=1, stores="rewards=r-log,players=p-log")
    cluster.write("rewards", b"k", b"1")
    node, moved = cluster.nodes["a"], "players@p-log-2"
    node.catalog.want({**node.catalog.topics, moved: "p-log-2"})
    assignment = Assignment(("a",), {"rewards": 1, "players": 1, moved: 1}, 0)
    table = routing_table(assignment, [Member("a", "http://a:80", heard=True)], Tolerance())
    nodes = Nodes(["http://a:80"])

    def get(path: str) -> httpx2.Response:
        return asyncio.run(cluster.get("a", path))

    def due_after_an_answer() -> bool:
        nodes.in_order("rewards", b"k", 1.0)
        nodes.saw_epoch(get("/state/keyvalue/rewards/k").headers["storekeeper-epoch"])
        return nodes.take_map_due(1.0)

    node.catalog.follow(table, node.replicas, {})
    assert [due_after_an_answer() for _ in range(3)] == [False, False, True]
    nodes.learn(ClusterMap.of(get("/state/cluster").json()), 1.0)
    assert not due_after_an_answer()
    node.catalog.follow(table, node.replicas, {"rewards": "rewards", "players": moved})
    assert due_after_an_answer(), "the map is of another epoch"
    nodes.learn(ClusterMap.of(get("/state/cluster").json()), 1.0)
    assert not due_after_an_answer()


def test_a_map_that_cannot_be_read_changes_nothing() -> None:
    core = ClientCore([A], ClientLimits(), monotonic=False)
    wrongs: list[object] = [
        None,
        [],
        {},
        {"epoch": "e", "members": 7},
        {"epoch": "e", "members": [{}], "assignment": 1},
    ]
    for wrong in wrongs:
        core.learn(wrong, 0.0)
    assert core.nodes.addresses == (A,)


def test_late_is_judged_by_what_is_usual() -> None:
    estimate = LatencyEstimate()
    assert estimate.late_s == 0.25
    for _ in range(100):
        estimate.add(0.002)
    assert estimate.late_s == 0.05, "never less"
    for _ in range(100):
        estimate.add(0.3)
    assert 0.3 < estimate.late_s < 0.5
    for _ in range(100):
        estimate.add(9.0)
    assert estimate.late_s == 1.0, "never more"


def test_the_slowness_of_one_node_never_becomes_usual() -> None:
    nodes = Nodes([A, B])
    assert nodes.hedge_delay_s(keyed=True) == 0.25
    for _ in range(100):
        nodes.answered(A, 0.3, keyed=True)
    assert nodes.hedge_delay_s(keyed=True) > 0.3, "all are slow, as far as is known"
    assert nodes.hedge_delay_s(keyed=False) == 0.25
    for _ in range(100):
        nodes.answered(B, 0.002, keyed=True)
        nodes.answered(A, 0.3, keyed=True)
    assert nodes.hedge_delay_s(keyed=True) == 0.05
    nodes.learn(ClusterMap("e2", {"c": C}, {}), 0.0)
    assert nodes.hedge_delay_s(keyed=True) == 0.05, "it was told of b by name"
    told = Nodes([A])
    told.learn(MAP, 0.0)
    told.answered(B, 0.002, keyed=True)
    told.answered(A, 0.3, keyed=True)
    told.learn(ClusterMap("e2", {}, {}), 0.0)
    assert told.hedge_delay_s(keyed=True) > 0.3, "b has left"


@pytest.mark.parametrize(
    "address", ["", "a:1", "ftp://a", "http://", "http://a/path", "http://a?x=1", "http://me:secret@a:1"]
)
def test_addresses_that_cannot_work(address: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Nodes([address])
    assert "secret" not in str(caught.value)


def test_it_needs_somebody_to_ask() -> None:
    with pytest.raises(InvalidArgumentError):
        Nodes([])
