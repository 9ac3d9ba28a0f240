"""`/state/stores`, `/state/lag`: the stores of this node and how far their replicas are."""

from __future__ import annotations

from contextlib import suppress

from fastapi import APIRouter
from pydantic import BaseModel

from storekeeper.errors import StoreUnavailableError
from storekeeper.names import store_of
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.query.reads.kinds import ROUTES
from storekeeper.node.query.routes.topology import PartitionHolders, holders_of
from storekeeper.node.replicas.ranked_index import RankedIndex, RankedView
from storekeeper.protocol.replica_states import ReplicaStatus
from storekeeper.stores.store_definitions import ServedKind


class StoreView(BaseModel):
    """A store as this node sees it. Counts and partitions are those that the node holds itself.

    `topic` is the changelog that it is answered from. `generation` is the one that an alias names for that topic, None
    if none does. `warm_topic` is held beside it, for a change or for going back; None if there is none.
    """

    store: str
    topic: str
    generation: int | None
    warm_topic: str | None
    kind: str
    backend: str
    partitions: int | None
    active: list[int]
    standby: list[int]


class StoreDetails(StoreView):
    """A store with all its partitions, and the routes that it can be asked by.

    `ranked_rows` and `unranked_rows` count those in the rankings that this node holds and that are complete; None for
    other kinds.
    """

    score_field: str | None
    partitions_held_by: list[PartitionHolders]
    ranked_rows: int | None
    unranked_rows: int | None
    routes: list[str]


class ReplicaView(BaseModel):
    """One replica of this node. Offsets are those of its changelog partition, `offset` being the next to apply.

    `skipped_records` counts the records below `offset` that were not rows, `skipped_reasons` by reason, and
    `last_skipped_offset` is that of the last one. `unranked_rows` have no score; None if there is no ranking.
    """

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
    skipped_records: int
    skipped_reasons: dict[str, int]
    last_skipped_offset: int | None
    unranked_rows: int | None
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
        return [_store(catalog, catalog.variant(store), backend) for store in catalog.names]

    @routes.get("/state/stores/{store}")
    async def store_details(store: str) -> StoreDetails:
        """One store: its kind, who has its partitions, and which routes it can be asked by."""
        definition = catalog.definition(store)
        views = _rankings(catalog, store) if definition.kind is ServedKind.RANKED else None
        return StoreDetails(
            **_store(catalog, store, backend).model_dump(),
            score_field=definition.score_field,
            partitions_held_by=holders_of(catalog, store),
            ranked_rows=None if views is None else sum(map(len, views)),
            unranked_rows=None if views is None else sum(view.unranked for view in views),
            routes=[route.replace("{store}", store_of(store)) for route in ROUTES[definition.kind]],
        )

    @routes.get("/state/lag")
    async def lag() -> LagView:
        """How far each replica of this node is behind its changelog."""
        statuses = [catalog.replicas[replica].status() for replica in sorted(catalog.replicas)]
        return LagView(node=catalog.node, replicas=[replica_view(status, catalog.node) for status in statuses])

    return routes


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
        skipped_records=status.skipped.records,
        skipped_reasons=dict(status.skipped.by_reason),
        last_skipped_offset=status.skipped.last_offset,
        unranked_rows=status.unranked_rows,
        error=status.error or status.trouble,
    )


def _store(catalog: Catalog, store: str, backend: str) -> StoreView:
    mine = [replica for replica_id, replica in sorted(catalog.replicas.items()) if replica_id.store == store]
    return StoreView(
        store=store_of(store),
        topic=catalog.topic(store),
        generation=catalog.generation(store),
        warm_topic=catalog.warm_topic(store),
        kind=catalog.definition(store).kind.value,
        backend=backend,
        partitions=catalog.partitions(store) if catalog.is_complete else None,
        active=[replica.replica_id.partition for replica in mine if replica.role == "active"],
        standby=[replica.replica_id.partition for replica in mine if replica.role == "standby"],
    )


def _rankings(catalog: Catalog, store: str) -> list[RankedView]:
    """The rankings of this node's replicas of a store, without those that can't answer now."""
    rankings: list[RankedView] = []
    for replica_id, replica in catalog.replicas.items():
        if replica_id.store == store and isinstance(replica.index, RankedIndex):
            with suppress(StoreUnavailableError):
                rankings.append(replica.index.view())
    return rankings
