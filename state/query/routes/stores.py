"""`/state/stores`, `/state/lag`: the stores of this node and how far their replicas are."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from state.query.catalog import Catalog
from state.replicas.states import ReplicaStatus

_LARGEST_COUNT = 2**63 - 1


class StoreView(BaseModel):
    """A store as this node sees it. Counts and partitions are those that the node holds itself."""

    store: str
    topic: str
    kind: str
    backend: str
    partitions: int | None
    active: list[int]
    standby: list[int]
    approximate_num_entries: int


class ReplicaView(BaseModel):
    """One replica of this node. Offsets are those of its changelog partition, `offset` being the next to apply."""

    store: str
    partition: int
    topic: str
    node: str
    role: str
    state: str
    serving: bool
    offset: int | None
    end_offset: int | None
    offset_lag: int | None
    restored_records: int
    null_keys: int
    error: str | None


class LagView(BaseModel):
    """All replicas of one node."""

    node: str
    replicas: list[ReplicaView]


def store_routes(catalog: Catalog, backend: str) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["stores"])

    @routes.get("/state/stores")
    async def stores() -> list[StoreView]:
        """The stores, with what this node holds of them."""
        return [_store(catalog, store, backend) for store in sorted(catalog.topics)]

    @routes.get("/state/lag")
    async def lag() -> LagView:
        """How far each replica of this node is behind its changelog."""
        statuses = [catalog.replicas[replica].status() for replica in sorted(catalog.replicas)]
        return LagView(node=catalog.node, replicas=[replica_view(status, catalog.node) for status in statuses])

    return routes


def saturating_sum(counts: list[int]) -> int:
    """Their sum, at most the largest signed 64-bit number: it saturates, as Kafka Streams' does, and never wraps."""
    return min(sum(counts), _LARGEST_COUNT)


def replica_view(status: ReplicaStatus, node: str) -> ReplicaView:
    """One replica as the routes show it."""
    return ReplicaView(
        store=status.replica.store,
        partition=status.replica.partition,
        topic=status.topic,
        node=node,
        role=status.role.value,
        state=status.state.value,
        serving=status.serving,
        offset=status.offset,
        end_offset=status.end_offset,
        offset_lag=status.offset_lag,
        restored_records=status.restored_records,
        null_keys=status.null_keys,
        error=status.error,
    )


def _store(catalog: Catalog, store: str, backend: str) -> StoreView:
    mine = [replica for replica_id, replica in sorted(catalog.replicas.items()) if replica_id.store == store]
    return StoreView(
        store=store,
        topic=catalog.topic(store),
        kind="keyvalue",
        backend=backend,
        partitions=catalog.partitions(store) if catalog.is_complete else None,
        active=[replica.replica_id.partition for replica in mine if replica.role == "active"],
        standby=[replica.replica_id.partition for replica in mine if replica.role == "standby"],
        approximate_num_entries=saturating_sum([replica.approximate_num_entries() for replica in mine]),
    )
