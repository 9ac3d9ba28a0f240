"""Which members partitions are spread over, and when a node opens, drops and rebuilds replicas. Pure.

Newcomers get partitions only once they have stayed for a while. Otherwise a node that keeps joining and leaving would
make replicas move each time, at the others' expense. Kafka's `group.initial.rebalance.delay.ms` exists for that, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from storekeeper.node.cluster.heartbeat import ReplicaReport
from storekeeper.node.cluster.routing import RoutingTable
from storekeeper.node.cluster.view import Member
from storekeeper.protocol.replica_states import ReplicaId, ReplicaRole, ReplicaState


@dataclass(frozen=True, slots=True)
class RebalancePolicy:
    """The rules.

    Attributes:
        needed: the most holders that a partition should have; newcomers don't wait while there are fewer nodes.
        join_delay_s: how long a newcomer waits.
    """

    needed: int = 1
    join_delay_s: float = 0.0

    def assignable(self, members: Sequence[Member]) -> Sequence[Member]:
        """The members that partitions are spread over: those that have settled or hold replicas already.

        All members if fewer than `needed` have settled or hold replicas.
        """
        holders = [member for member in members if member.replicas or not member.settling]
        return holders if len(holders) >= self.needed else members

    def settling_s(self, others: Sequence[Member]) -> float:
        """How long a node that joins these others is settling."""
        return self.join_delay_s if len(others) >= self.needed else 0.0


@dataclass(frozen=True, slots=True)
class HandoverPlan:
    """What a node should do with its replicas.

    Attributes:
        gained: replicas to open, with their roles.
        roles: the role of each replica that it holds already; STANDBY for those not assigned to it.
        spare: replicas that it holds without being assigned to it, and that others are ready to serve.
        kept: replicas that it holds without being assigned to it, and keeps, as the others aren't ready.
    """

    gained: Sequence[tuple[ReplicaId, ReplicaRole]]
    roles: Mapping[ReplicaId, ReplicaRole]
    spare: frozenset[ReplicaId]
    kept: frozenset[ReplicaId]


def plan_handover(table: RoutingTable, node: str, held: frozenset[ReplicaId]) -> HandoverPlan:
    """Compares a node's replicas with its assignment."""
    assigned = {ReplicaId(store, partition): role for store, partition, role in table.assignment.held_by(node)}
    surplus = held - assigned.keys()
    spare = frozenset(replica for replica in surplus if _others_ready(table, replica))
    return HandoverPlan(
        gained=[(replica, role) for replica, role in assigned.items() if replica not in held],
        roles={
            **{replica: assigned[replica] for replica in assigned.keys() & held},
            **dict.fromkeys(surplus, ReplicaRole.STANDBY),
        },
        spare=spare,
        kept=surplus - spare,
    )


def _others_ready(table: RoutingTable, replica: ReplicaId) -> bool:
    """Whether every node that a replica is assigned to is ready to serve it."""
    if replica not in table.ready:
        return replica.store in table.assignment.partitions  # the topic was recreated with fewer partitions
    return set(table.assignment.holders(replica.store, replica.partition)) <= table.ready[replica]


_SOON_WHOLE = frozenset({ReplicaState.CREATED, ReplicaState.RESTORING})


class RebuildTurns:
    """Which replicas a node may drop and rebuild now: of each partition, one in the cluster at a time.

    A replica that was behind for longer than its log keeps tombstones must be rebuilt. If all nodes were down, all
    replicas must be; if all were rebuilt at once, none could answer. So a replica is first reported as OUTDATED in its
    node's heartbeats and keeps its rows. It has its turn once the node has read its own report, and no other node

    - reported it earlier and is still a member, as that node comes first;
    - has just dropped its rows, or has none to serve while this replica serves.

    Heartbeats are the records of one partition, so all nodes read them in the same order, and only one node comes
    first. If a node stops between its turn and the rebuild for so long that it is no longer a member, it loses its
    turn. If it then goes on, two replicas are rebuilt at once.

    `update` belongs to one thread, `has` to any.
    """

    def __init__(self, node: str) -> None:
        self._node = node
        self._turns: frozenset[ReplicaId] = frozenset()

    def update(self, members: Sequence[Member]) -> None:
        """Takes the current members."""
        self._turns = turns_of(self._node, members)

    def has(self, replica: ReplicaId) -> bool:
        """Whether a replica may be rebuilt now."""
        return replica in self._turns


def turns_of(node: str, members: Sequence[Member]) -> frozenset[ReplicaId]:
    """The replicas of a node that may be rebuilt now."""
    mine = next((member for member in members if member.name == node), None)
    if mine is None:
        return frozenset()
    reports = {report.replica: report for report in mine.replicas}
    others = [member for member in members if member.name != node]
    return frozenset(
        replica
        for replica, since in mine.outdated_since.items()
        if not any(_comes_first(other, reports[replica], since) for other in others)
    )


def _comes_first(other: Member, mine: ReplicaReport, since: int) -> bool:
    theirs = next((report for report in other.replicas if report.replica == mine.replica), None)
    if theirs is None:
        return False
    if theirs.state is ReplicaState.OUTDATED:
        return other.outdated_since[mine.replica] < since
    return not theirs.serving and (mine.serving or theirs.state in _SOON_WHOLE)
