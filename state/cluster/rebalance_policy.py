"""Which members partitions are spread over, and when a node opens and drops replicas. Pure.

Newcomers get partitions only once they have stayed for a while. Otherwise a node that keeps joining and leaving would
make replicas move each time, at the others' expense. Kafka's `group.initial.rebalance.delay.ms` exists for that, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from state.cluster.routing import RoutingTable
from state.cluster.view import Member
from state.replicas.states import ReplicaId, ReplicaRole


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
        found = [member for member in members if member.replicas or not member.settling]
        return found if len(found) >= self.needed else members

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
    wanted = {ReplicaId(store, partition): role for store, partition, role in table.assignment.held_by(node)}
    surplus = held - wanted.keys()
    spare = frozenset(replica for replica in surplus if _others_ready(table, replica))
    return HandoverPlan(
        gained=[(replica, role) for replica, role in wanted.items() if replica not in held],
        roles={
            **{replica: wanted[replica] for replica in wanted.keys() & held},
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
