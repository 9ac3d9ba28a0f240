"""Which members partitions are spread over."""

from __future__ import annotations

from state.cluster.heartbeat import ReplicaReport
from state.cluster.rebalance_policy import RebalancePolicy
from state.cluster.view import Member
from state.replicas.states import ReplicaId, ReplicaRole, ReplicaState

HELD = ReplicaReport(ReplicaId("s", 0), ReplicaRole.STANDBY, ReplicaState.RESTORING, False, None, None)
POLICY = RebalancePolicy(needed=2, join_delay_s=3)


def member(name: str, *replicas: ReplicaReport, settling: bool = False) -> Member:
    return Member(name, f"http://{name}", heard=True, settling=settling, replicas=replicas)


def assignable(*members: Member) -> str:
    return "".join(found.name for found in POLICY.assignable(members))


def test_a_newcomer_gets_no_partitions_until_it_has_settled() -> None:
    assert assignable(member("a"), member("b"), member("c", settling=True)) == "ab"
    assert assignable(member("a"), member("b"), member("c")) == "abc"


def test_nobody_waits_while_there_are_too_few() -> None:
    assert assignable(member("a"), member("c", settling=True)) == "ac"
    assert (POLICY.settling_s([]), POLICY.settling_s([member("a")])) == (0, 0)
    assert POLICY.settling_s([member("a"), member("b", settling=True)]) == 3


def test_a_member_that_holds_replicas_keeps_getting_partitions() -> None:
    assert assignable(member("a"), member("b"), member("c", HELD, settling=True)) == "abc"
