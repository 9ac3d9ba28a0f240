"""What a node is to begin to hold, and what it may let go of: only once others are ready to answer for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from state.changelog.restore import Role
from state.cluster.routing import RoutingTable
from state.replicas.states import ReplicaId


@dataclass(frozen=True, slots=True)
class HandoverPlan:
    """What a node is to do about its replicas.

    Attributes:
        gained: replicas to open, with their roles.
        roles: the role of each replica that it holds already and keeps.
        spare: replicas that it holds, is not to hold, and that others are ready to answer for.
        kept: replicas that it is not to hold, but goes on holding, as the others aren't ready.
    """

    gained: Sequence[tuple[ReplicaId, Role]]
    roles: Mapping[ReplicaId, Role]
    spare: frozenset[ReplicaId]
    kept: frozenset[ReplicaId]


def plan_handover(table: RoutingTable, node: str, held: frozenset[ReplicaId]) -> HandoverPlan:
    """Compares what a node holds with what it is to hold."""
    wanted = {ReplicaId(store, partition): role for store, partition, role in table.assignment.held_by(node)}
    surplus = held - wanted.keys()
    spare = frozenset(replica for replica in surplus if _others_ready(table, replica))
    return HandoverPlan(
        gained=[(replica, role) for replica, role in wanted.items() if replica not in held],
        roles={
            **{replica: wanted[replica] for replica in wanted.keys() & held},
            **dict.fromkeys(surplus, Role.STANDBY),
        },
        spare=spare,
        kept=surplus - spare,
    )


def _others_ready(table: RoutingTable, replica: ReplicaId) -> bool:
    """Whether every node that is to hold a replica is ready to answer for it."""
    if replica not in table.ready:
        return replica.store in table.assignment.partitions  # the topic was made anew with fewer partitions
    return set(table.assignment.holders(replica.store, replica.partition)) <= table.ready[replica]
