"""Which replicas a node should open, and which it may drop: only once others are ready to serve them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from state.cluster.routing import RoutingTable
from state.replicas.states import ReplicaId, ReplicaRole


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
