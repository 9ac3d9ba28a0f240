"""`/state/topology` and `/state/metadata`: the topology of the cluster, and the nodes of a key."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from state.cluster.catalog import Catalog
from state.names import store_of
from state.protocol.keys import decode_base64url
from state.query.observing.topology import Topology, mermaid, topology_of
from state.query.routes.parameters import KeyFormat
from state.query.routes.paths import key_behind


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

    @routes.get("/state/topology.mmd", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
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
