"""Rendezvous hashing over nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.changelog.restore import Role
from state.errors import InvalidArgumentError
from state.query.assignment import Assignment, holders

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


def test_what_a_node_holds() -> None:
    assignment = Assignment(("a", "b"), {"rewards": 2}, replicas=1)
    assert assignment.held_by("a") == [("rewards", 0, Role.ACTIVE), ("rewards", 1, Role.STANDBY)]
    assert assignment.held_by("nobody") == []


def test_somebody_must_hold_it() -> None:
    with pytest.raises(InvalidArgumentError):
        holders([], "s", 0, 1)
