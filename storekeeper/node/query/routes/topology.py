"""`/state/topology`, `cluster`, `metadata` and `instances`: the nodes, and where stores and keys are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from storekeeper.names import store_of
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.cluster.heartbeat import ReplicaReport
from storekeeper.node.cluster.view import Member
from storekeeper.node.query.answers.answer import EPOCH
from storekeeper.node.query.routes.parameters import KeyFormat, key_behind
from storekeeper.protocol.keys import decode_base64url
from storekeeper.protocol.replica_states import ReplicaId


@dataclass(frozen=True, slots=True)
class PartitionHolders:
    """Who has a partition: `active` is preferred, `standbys` follow in order."""

    partition: int
    active: str
    standbys: Sequence[str]


@dataclass(frozen=True, slots=True)
class StoreTopology:
    """One store. No partitions: the broker has not described them yet."""

    store: str
    topic: str
    kind: str
    partitions: Sequence[PartitionHolders]


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology as this node knows it. `nodes` are addresses by name."""

    node: str
    nodes: Mapping[str, str]
    stores: Sequence[StoreTopology]


def topology_of(catalog: Catalog) -> Topology:
    """The topology as the catalog knows it now."""
    stores = [
        StoreTopology(name, definition.topic, definition.kind.value, holders_of(catalog, variant))
        for name in catalog.names
        if (variant := catalog.variant(name)) and (definition := catalog.definition(variant))
    ]
    return Topology(catalog.node, dict(sorted(catalog.addresses.items())), stores)


def holders_of(catalog: Catalog, store: str) -> list[PartitionHolders]:
    """The holders of each partition of a store; empty while they aren't known."""
    if not catalog.is_complete:
        return []
    holders: list[PartitionHolders] = []
    for partition in range(catalog.partitions(store)):
        active, *standbys = catalog.holders(store, partition) or [""]
        holders.append(PartitionHolders(partition, active, standbys))
    return holders


def mermaid(topology: Topology) -> str:
    """A flowchart: changelog topic, store, and the nodes with the partitions that they hold of it."""
    lines = ["flowchart LR", *_lines(topology)]
    return "\n".join(lines) + "\n"


def _lines(topology: Topology) -> Iterator[str]:
    nodes = {name: f"node{number}" for number, name in enumerate(topology.nodes)}
    for number, store in enumerate(topology.stores):
        yield f'    topic{number}[/"{store.topic}"/] --> store{number}[("{store.store}<br/>{store.kind}")]'
        for name, held in _held(store).items():
            if name not in nodes:
                nodes[name] = f"node{len(nodes)}"
            yield f'    store{number} -- "{held}" --> {nodes[name]}'
    for name, identifier in nodes.items():
        yield f'    {identifier}["node {name}<br/>{topology.nodes.get(name, "")}"]'


def _held(store: StoreTopology) -> Mapping[str, str]:
    """The partitions that each node holds: active ones first, standbys in brackets."""
    active: dict[str, list[str]] = {}
    standby: dict[str, list[str]] = {}
    for holders in store.partitions:
        active.setdefault(holders.active, []).append(str(holders.partition))
        for node in holders.standbys:
            standby.setdefault(node, []).append(str(holders.partition))
    topics: dict[str, str] = {}
    for node in sorted(active.keys() | standby.keys()):
        parts = [" ".join(active.get(node, []))] if node in active else []
        parts += [f"({' '.join(standby[node])})"] if node in standby else []
        topics[node] = " ".join(parts)
    return topics


class KeyMetadata(BaseModel):
    """Where a key is: its partition, the node that queries prefer, those that can answer too, and their addresses."""

    store: str
    key: str
    partition: int
    topic: str
    active: str
    standbys: list[str]
    addresses: dict[str, str]


def topology_routes(catalog: Catalog) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["topology"])

    @routes.get("/state/topology")
    async def topology() -> Topology:
        """Nodes, stores, their changelog topics, and who has which partition, as this node knows it."""
        return topology_of(catalog)

    @routes.get(
        "/state/topology.mmd",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def topology_as_mermaid() -> Response:
        """The same as a Mermaid flowchart. On an arrow: active partitions, standbys in brackets."""
        return Response(mermaid(topology_of(catalog)), media_type="text/plain; charset=utf-8")

    @routes.get("/state/metadata/{store}/{key:path}")
    async def metadata(store: str, request: Request, key_format: KeyFormat = "string") -> KeyMetadata:
        """The partition of a key and its nodes, whether or not the store has the key. For windows: the key alone."""
        catalog.definition(store)
        text = key_behind(request.scope, 3)
        key = decode_base64url(text, "the key") if key_format == "base64url" else text
        partition = catalog.partition(store, key)
        active, *standbys = catalog.holders(store, partition)
        addresses = {node: catalog.addresses[node] for node in (active, *standbys) if node in catalog.addresses}
        return KeyMetadata(
            store=store_of(store),
            key=text.decode(errors="replace"),
            partition=partition,
            topic=catalog.topic(store),
            active=active,
            standbys=standbys,
            addresses=addresses,
        )

    return routes


class Instance(BaseModel):
    """A node, as Kafka Streams' examples show it."""

    host: str
    port: int
    storeNames: list[str]  # noqa: N815 - the examples' own spelling


def instance_routes(catalog: Catalog) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["instances"])

    @routes.get("/state/instances")
    async def instances() -> list[Instance]:
        """Every node and the stores that it serves."""
        return [_instance(catalog, node) for node in catalog.addresses]

    @routes.get("/state/instances/{store}")
    async def instances_of(store: str) -> list[Instance]:
        """The nodes that serve a store."""
        catalog.topic(store)
        views = (_instance(catalog, node) for node in catalog.addresses)
        return [instance for instance in views if store_of(store) in instance.storeNames]

    @routes.get("/state/instance/{store}/{key:path}")
    async def instance(store: str, request: Request) -> Instance:
        """The node that queries for a key prefer."""
        partition = catalog.partition(store, key_behind(request.scope, 3))
        return _instance(catalog, catalog.holders(store, partition)[0])

    return routes


def _instance(catalog: Catalog, node: str) -> Instance:
    address = urlsplit(catalog.addresses[node])
    return Instance(host=address.hostname or "", port=address.port or 0, storeNames=catalog.stores_of(node))


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

    `missing` are nodes that have been silent for so long that they are members no more: frozen, killed or cut off. A
    configured one stays there as long as it is silent, another one for a day and only if it has not said goodbye.
    `assignment` has the nodes to ask for each store and partition, the best one first. `epoch` is the name of the
    assignment: nodes with the same epoch agree on the holder of each partition.
    """

    node: str
    epoch: str
    members: list[MemberView]
    missing: list[MemberView]
    assignment: dict[str, list[list[str]]]


def cluster_routes(catalog: Catalog) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["cluster"])

    @routes.get("/state/cluster")
    async def cluster(response: Response) -> ClusterView:
        """Members, epoch, and the nodes to ask for each store partition, as this node knows them."""
        view = cluster_view(catalog)
        response.headers[EPOCH.decode()] = view.epoch
        return view

    return routes


def cluster_view(catalog: Catalog) -> ClusterView:
    """The route's answer; no members and no assignment before the heartbeats were read."""
    # Read before the table: with a newer table, clients fetch the map once more than needed, not too late.
    epoch, table = catalog.epoch, catalog.table
    if table is None:
        return ClusterView(node=catalog.node, epoch="", members=[], missing=[], assignment={})
    assignment = {
        store: [list(table.holders[ReplicaId(variant, partition)]) for partition in range(count)]
        for store in catalog.names
        if (count := table.assignment.partitions.get(variant := catalog.variant(store))) is not None
    }
    return ClusterView(
        node=catalog.node,
        epoch=epoch,
        members=list(map(_member, table.members)),
        missing=list(map(_member, catalog.missing)),
        assignment=assignment,
    )


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
