"""Which nodes to ask for a partition: the assignment corrected by the nodes' reports on their replicas. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from storekeeper.node.cluster.assignment import Assignment
from storekeeper.node.cluster.heartbeat import ReplicaReport
from storekeeper.node.cluster.view import Member
from storekeeper.protocol.replica_states import ReplicaId


class HolderStanding(IntEnum):
    """How good a node is for a partition; less is better."""

    READY = 0
    """It serves, and is not far behind."""
    BEHIND = 1
    """It serves, but far behind."""
    UNKNOWN = 2
    """It is assigned the partition and has not sent a heartbeat yet."""
    NOT_SERVING = 3
    """It reports that it can't answer, or doesn't report the partition."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far behind a replica may be and still count as ready. An unknown staleness is too high."""

    lag: int = 10_000
    staleness_ms: int = 2000


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """Which nodes to ask, at one moment.

    Attributes:
        assignment: the assignment of partitions to nodes.
        members: the cluster's nodes.
        addresses: base address by node.
        holders: nodes to ask by store partition, the best one first. Nodes that held a partition before are among them
            as long as they report it.
        ready: the nodes that serve a store partition and are not far behind.
        epoch: the epoch of the assignment.
    """

    assignment: Assignment
    members: Sequence[Member]
    addresses: Mapping[str, str]
    holders: Mapping[ReplicaId, Sequence[str]]
    ready: Mapping[ReplicaId, frozenset[str]]
    epoch: str


def routing_table(assignment: Assignment, members: Sequence[Member], tolerance: Tolerance) -> RoutingTable:
    """Ranks the nodes for every store partition.

    A replica that is further behind than `tolerance` is asked after the others.
    """
    by_name = {member.name: member for member in members}
    standings = _standings(members, tolerance)
    holders: dict[ReplicaId, Sequence[str]] = {}
    ready: dict[ReplicaId, frozenset[str]] = {}
    for store, count in assignment.partitions.items():
        for partition in range(count):
            replica = ReplicaId(store, partition)
            by_node = standings.get(replica, {})
            target = assignment.holders(store, partition)
            for node in target:
                if node not in by_node:
                    silent = node not in by_name or not by_name[node].heard
                    by_node[node] = HolderStanding.UNKNOWN if silent else HolderStanding.NOT_SERVING
            holders[replica] = _ranked(by_node, target, by_name)
            ready[replica] = frozenset(
                node
                for node, standing in by_node.items()
                if standing is HolderStanding.READY and not by_name[node].suspect
            )
    addresses = {member.name: member.address for member in members}
    return RoutingTable(assignment, tuple(members), addresses, holders, ready, assignment.epoch)


def _standings(members: Iterable[Member], tolerance: Tolerance) -> dict[ReplicaId, dict[str, HolderStanding]]:
    standings: dict[ReplicaId, dict[str, HolderStanding]] = {}
    for member in members:
        for report in member.replicas:
            standings.setdefault(report.replica, {})[member.name] = _standing(report, tolerance)
    return standings


def _standing(report: ReplicaReport, tolerance: Tolerance) -> HolderStanding:
    if not report.serving:
        return HolderStanding.NOT_SERVING
    # A replica that has just begun to follow doesn't know its staleness yet.
    known = report.staleness_ms is not None and report.staleness_ms <= tolerance.staleness_ms
    return HolderStanding.READY if known and (report.offset_lag or 0) <= tolerance.lag else HolderStanding.BEHIND


def _ranked(
    standings: Mapping[str, HolderStanding], target: Sequence[str], members: Mapping[str, Member]
) -> Sequence[str]:
    places = {node: place for place, node in enumerate(target)}

    def rank(node: str) -> tuple[bool, bool, HolderStanding, int, str]:
        standing = standings[node]
        suspect = node in members and members[node].suspect
        return (standing is HolderStanding.NOT_SERVING, suspect, standing, places.get(node, len(target)), node)

    return tuple(sorted(standings, key=rank))
