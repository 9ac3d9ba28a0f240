"""`/state/cluster`: the nodes, the replicas that each reports, and which node to ask for a partition."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import BaseModel

from state.cluster.catalog import Catalog
from state.cluster.heartbeat import ReplicaReport
from state.cluster.view import Member
from state.query.answers.answer import EPOCH
from state.replicas.states import ReplicaId


class ReplicaReportView(BaseModel):
    """One replica, as its node last reported it."""

    store: str
    partition: int
    role: str
    state: str
    serving: bool
    offset: int | None
    offset_lag: int | None
    staleness_ms: int | None


class MemberView(BaseModel):
    """One node. `heard` is false for a configured one that has sent no heartbeat; `suspect`: no heartbeat for a moment;
    `settling`: joined a moment ago, without partitions yet.
    """

    name: str
    address: str
    rack: str
    suspect: bool
    settling: bool
    heard: bool
    silent_s: float
    replicas: list[ReplicaReportView]


class ClusterView(BaseModel):
    """The cluster as one node knows it.

    `assignment` has the nodes to ask for each store and partition, the best one first. `epoch` is the name of the
    assignment: nodes with the same epoch agree on the holder of each partition.
    """

    node: str
    epoch: str
    members: list[MemberView]
    assignment: dict[str, list[list[str]]]


def cluster_routes(catalog: Catalog) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["cluster"])

    @routes.get("/state/cluster")
    async def cluster(response: Response) -> ClusterView:
        """Members, epoch, and the nodes to ask for each store partition, as this node knows them."""
        response.headers[EPOCH.decode()] = catalog.epoch
        return cluster_view(catalog)

    return routes


def cluster_view(catalog: Catalog) -> ClusterView:
    """The route's answer; no members and no assignment before the heartbeats were read."""
    table = catalog.table
    if table is None:
        return ClusterView(node=catalog.node, epoch="", members=[], assignment={})
    assignment = {
        store: [list(table.holders[ReplicaId(variant, partition)]) for partition in range(count)]
        for store in catalog.names
        if (count := table.assignment.partitions.get(variant := catalog.variant(store))) is not None
    }
    members = [_member(member) for member in table.members]
    return ClusterView(node=catalog.node, epoch=table.epoch, members=members, assignment=assignment)


def _member(member: Member) -> MemberView:
    return MemberView(
        name=member.name,
        address=member.address,
        rack=member.rack,
        suspect=member.suspect,
        settling=member.settling,
        heard=member.heard,
        silent_s=round(member.silent_s, 3),
        replicas=[_report(report) for report in member.replicas],
    )


def _report(report: ReplicaReport) -> ReplicaReportView:
    return ReplicaReportView(
        store=report.replica.store,
        partition=report.replica.partition,
        role=report.role.value,
        state=report.state.value,
        serving=report.serving,
        offset=report.offset,
        offset_lag=report.offset_lag,
        staleness_ms=report.staleness_ms,
    )
