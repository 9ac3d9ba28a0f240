"""Whom to ask, and what to hold, by what the nodes say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from storekeeper.node.cluster.assignment import Assignment
from storekeeper.node.cluster.heartbeat import ReplicaReport
from storekeeper.node.cluster.rebalance_policy import plan_handover
from storekeeper.node.cluster.routing import Tolerance, routing_table
from storekeeper.node.cluster.view import Member
from storekeeper.protocol.replica_states import ReplicaId, ReplicaRole, ReplicaState

REPLICA = ReplicaId("s", 0)
TOLERANCE = Tolerance(lag=100, staleness_ms=2000)


def report(*, serving: bool = True, lag: int | None = 0, staleness_ms: int | None = 5) -> ReplicaReport:
    state = ReplicaState.RUNNING if serving else ReplicaState.RESTORING
    return ReplicaReport(REPLICA, ReplicaRole.ACTIVE, state, serving, 1, lag, staleness_ms)


def member(name: str, *reports: ReplicaReport, suspect: bool = False, heard: bool = True) -> Member:
    return Member(name, f"http://{name}", suspect=suspect, heard=heard, replicas=reports)


def assignment(*nodes: str, replicas: int = 1) -> Assignment:
    return Assignment(nodes, {"s": 1}, replicas)


TARGET = assignment("a", "b", "c").holders("s", 0)
FIRST, SECOND = TARGET
OTHER = next(node for node in "abc" if node not in TARGET)


def asked(*members: Member) -> list[str]:
    found = routing_table(assignment("a", "b", "c"), members, TOLERANCE)
    return list(found.holders[REPLICA])


def test_the_assignment_decides_while_nobody_has_said_anything() -> None:
    assert asked(*(member(node, heard=False) for node in "abc")) == TARGET


def test_ready_ones_come_first_then_those_behind_then_those_that_cannot_answer() -> None:
    assert asked(member(FIRST, report(lag=1000)), member(SECOND, report()), member(OTHER)) == [SECOND, FIRST]
    assert asked(member(FIRST, report(staleness_ms=9000)), member(SECOND, report()), member(OTHER)) == [SECOND, FIRST]
    assert asked(member(FIRST, report(serving=False)), member(SECOND, report(lag=1000)), member(OTHER)) == [
        SECOND,
        FIRST,
    ]


def test_who_does_not_know_yet_what_it_misses_is_asked_behind_those_that_do() -> None:
    members = (member(FIRST, report(staleness_ms=None)), member(SECOND, report()), member(OTHER))
    assert asked(*members) == [SECOND, FIRST]
    assert routing_table(assignment("a", "b", "c"), members, TOLERANCE).ready[REPLICA] == {SECOND}


def test_a_suspect_goes_behind_those_that_can_answer() -> None:
    members = (member(FIRST, report(), suspect=True), member(SECOND, report(lag=1000)), member(OTHER))
    assert asked(*members) == [SECOND, FIRST]
    members = (member(FIRST, report(), suspect=True), member(SECOND, report(serving=False)), member(OTHER))
    assert asked(*members) == [FIRST, SECOND]


def test_a_node_that_was_to_hold_it_before_is_asked_until_the_new_ones_are_ready() -> None:
    assert asked(member(FIRST), member(SECOND), member(OTHER, report()))[0] == OTHER
    assert asked(member(FIRST, report()), member(SECOND, report()), member(OTHER, report())) == [*TARGET, OTHER]


def test_nothing_is_let_go_before_every_new_holder_is_ready() -> None:
    half = (member(FIRST, report()), member(SECOND, report(serving=False)), member(OTHER, report()))
    plan = plan_handover(routing_table(assignment("a", "b", "c"), half, TOLERANCE), OTHER, frozenset({REPLICA}))
    assert (plan.spare, plan.kept) == (frozenset(), frozenset({REPLICA}))
    suspect = (member(FIRST, report()), member(SECOND, report(), suspect=True), member(OTHER, report()))
    plan = plan_handover(routing_table(assignment("a", "b", "c"), suspect, TOLERANCE), OTHER, frozenset({REPLICA}))
    assert plan.spare == frozenset()
    whole = (member(FIRST, report()), member(SECOND, report()), member(OTHER, report()))
    plan = plan_handover(routing_table(assignment("a", "b", "c"), whole, TOLERANCE), OTHER, frozenset({REPLICA}))
    assert (plan.spare, plan.gained) == (frozenset({REPLICA}), [])


def test_a_node_gains_what_it_is_to_hold_with_its_role() -> None:
    table = routing_table(assignment("a", "b", "c"), [member(node) for node in "abc"], TOLERANCE)
    assert plan_handover(table, FIRST, frozenset()).gained == [(REPLICA, ReplicaRole.ACTIVE)]
    assert plan_handover(table, SECOND, frozenset()).gained == [(REPLICA, ReplicaRole.STANDBY)]
    assert plan_handover(table, SECOND, frozenset({REPLICA})).roles == {REPLICA: ReplicaRole.STANDBY}


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 200), st.booleans()), min_size=3, max_size=3),
    st.integers(0, 2),
)
def test_whoever_can_answer_is_asked_before_whoever_cannot(
    told: list[tuple[bool, bool, int, bool]], replicas: int
) -> None:
    members = [
        member(node, *([report(serving=serving, lag=lag)] if has else []), suspect=suspect)
        for node, (has, serving, lag, suspect) in zip("abc", told, strict=True)
    ]
    table = routing_table(assignment("a", "b", "c", replicas=replicas), members, TOLERANCE)
    serving = {node for node, (has, serves, _, _) in zip("abc", told, strict=True) if has and serves}
    order = list(table.holders[REPLICA])
    assert set(order) >= serving
    assert set(order[: len(serving)]) == serving
    assert table.ready[REPLICA] <= serving
