"""Rendezvous hashing over nodes."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import InvalidArgumentError
from storekeeper.node.cluster.assignment import Assignment, evenly_led, holders
from storekeeper.protocol.replica_states import ReplicaRole

names = st.sets(st.text(min_size=1, max_size=5), min_size=1, max_size=6)


def test_golden_placement() -> None:
    placed = [holders(["a", "b"], "rewards", partition, 1) for partition in range(4)]
    assert placed == [["a", "b"], ["b", "a"], ["a", "b"], ["b", "a"]]


@given(names, st.integers(0, 63), st.integers(0, 4))
def test_each_partition_has_one_active_and_as_many_standbys_as_there_are_nodes(
    nodes: set[str], partition: int, replicas: int
) -> None:
    found = holders(nodes, "s", partition, replicas)
    assert len(found) == len(set(found)) == min(len(nodes), 1 + replicas)
    assert set(found) <= nodes


@given(names, st.integers(0, 63))
def test_losing_a_node_moves_only_what_it_held(nodes: set[str], partition: int) -> None:
    before = holders(nodes, "s", partition, 0)
    for gone in nodes - set(before):
        assert holders(nodes - {gone}, "s", partition, 0) == before


def test_the_next_in_line_takes_over() -> None:
    first, second = holders(["a", "b", "c"], "s", 3, 1)
    assert holders({"a", "b", "c"} - {first}, "s", 3, 0) == [second]


def test_no_node_holds_a_partition_that_a_store_does_not_have() -> None:
    assignment = Assignment(("a", "b"), {"s": 2}, replicas=1)
    assert assignment.holders("s", 2) == assignment.holders("s", -1) == assignment.holders("t", 0) == []


def test_what_a_node_holds() -> None:
    assignment = Assignment(("a", "b"), {"rewards": 2}, replicas=1)
    assert assignment.held_by("a") == [("rewards", 0, ReplicaRole.ACTIVE), ("rewards", 1, ReplicaRole.STANDBY)]
    assert assignment.held_by("nobody") == []


def test_somebody_must_hold_it() -> None:
    with pytest.raises(InvalidArgumentError):
        holders([], "s", 0, 1)


racks = st.dictionaries(
    st.text(min_size=1, max_size=5), st.sampled_from(["", "r1", "r2", "r3"]), min_size=1, max_size=8
)


@given(racks, st.integers(0, 63), st.integers(0, 3))
def test_no_two_replicas_share_a_rack_while_there_is_another(
    by_node: dict[str, str], partition: int, replicas: int
) -> None:
    found = holders(by_node, "s", partition, replicas, by_node)
    assert len(found) == len(set(found)) == min(len(by_node), 1 + replicas)
    places = [by_node[node] or f"alone-{node}" for node in found]
    there = {rack or f"alone-{node}" for node, rack in by_node.items()}
    assert len(set(places)) == min(len(found), len(there))


@given(st.integers(3, 8), st.integers(0, 2), st.integers(0, 7))
def test_a_node_that_comes_or_goes_moves_only_what_it_gains_or_had(count: int, replicas: int, which: int) -> None:
    nodes = [f"n{number}" for number in range(count)]
    moving = nodes[which % count]
    rest = [node for node in nodes if node != moving]
    for partition in range(24):
        before, after = set(holders(nodes, "s", partition, replicas)), set(holders(rest, "s", partition, replicas))
        assert before - after <= {moving}
        assert len(after - before) <= 1


def test_a_fair_share_moves_to_a_node_that_joins() -> None:
    partitions = range(1200)
    before = [holders(["a", "b", "c"], "s", partition, 0)[0] for partition in partitions]
    after = [holders(["a", "b", "c", "d"], "s", partition, 0)[0] for partition in partitions]
    moved = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
    assert {other for _, other in moved} == {"d"}
    assert 0.2 < len(moved) / len(partitions) < 0.3


@given(st.integers(2, 6), st.integers(1, 40))
def test_where_all_nodes_hold_everything_each_is_active_for_its_share(nodes: int, partitions: int) -> None:
    names = [f"n{number}" for number in range(nodes)]
    assignment = Assignment(names, {"s": partitions}, replicas=nodes - 1)
    led = Counter(assignment.holders("s", partition)[0] for partition in range(partitions))
    assert max(led.values()) - min(led[name] for name in names) <= 1


@given(st.integers(2, 7), st.integers(1, 24), st.integers(0, 3))
def test_the_active_role_moves_no_rows(nodes: int, partitions: int, replicas: int) -> None:
    names = [f"n{number}" for number in range(nodes)]
    assignment = Assignment(names, {"s": partitions}, replicas)
    for partition in range(partitions):
        found = assignment.holders("s", partition)
        active, *standbys = found
        preferred = holders(names, "s", partition, replicas)
        assert set(found) == set(preferred)
        assert standbys == [node for node in preferred if node != active]


@given(st.lists(st.sets(st.sampled_from("abcd"), min_size=1).map(sorted), min_size=1, max_size=7))
def test_no_node_is_active_more_often_than_it_has_to_be(choices: list[list[str]]) -> None:
    led = evenly_led(choices, 4)
    assert all(node in held for node, held in zip(led, choices, strict=True))
    least = min(max(Counter(chosen).values()) for chosen in product(*choices))
    assert max(Counter(led).values()) == least


def test_after_a_node_has_gone_the_others_share_its_partitions() -> None:
    """Names and numbers of a platform whose two nodes were left with two and six."""
    for gone in ("a", "b", "c"):
        rest = [name for name in ("a", "b", "c") if name != gone]
        for store in ("rewards", "prices", "page_views_totals", "counts"):
            assignment = Assignment(rest, {store: 8}, replicas=1)
            assert Counter(assignment.holders(store, partition)[0] for partition in range(8)) == dict.fromkeys(rest, 4)


def test_a_global_store_is_everywhere_and_a_store_may_have_a_number_of_its_own() -> None:
    assignment = Assignment(
        ("a", "b", "c"), {"g": 1, "s": 1, "t": 1}, 0, replicas_of={"t": 1}, everywhere=frozenset({"g"})
    )
    assert len(assignment.holders("g", 0)) == 3
    assert len(assignment.holders("s", 0)) == 1
    assert len(assignment.holders("t", 0)) == 2


def test_the_epoch_names_the_assignment_whatever_the_order_of_the_nodes() -> None:
    one = Assignment(("a", "b"), {"s": 4}, 1)
    assert one.epoch == Assignment(("b", "a"), {"s": 4}, 1).epoch
    others = [
        Assignment(("a", "c"), {"s": 4}, 1),
        Assignment(("a", "b"), {"s": 5}, 1),
        Assignment(("a", "b"), {"s": 4}, 2),
        Assignment(("a", "b"), {"s": 4}, 1, racks={"a": "r"}),
    ]
    assert len({one.epoch, *(other.epoch for other in others)}) == 5
