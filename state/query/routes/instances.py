"""`/state/instances`, `/state/instance`: which nodes there are and which one a key's queries prefer."""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from pydantic import BaseModel

from state.cluster.catalog import Catalog
from state.names import store_of
from state.query.routes.paths import key_behind


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
        found = (_instance(catalog, node) for node in catalog.addresses)
        return [instance for instance in found if store_of(store) in instance.storeNames]

    @routes.get("/state/instance/{store}/{key:path}")
    async def instance(store: str, request: Request) -> Instance:
        """The node that queries for a key prefer."""
        partition = catalog.partition(store, key_behind(request.scope, 3))
        return _instance(catalog, catalog.holders(store, partition)[0])

    return routes


def _instance(catalog: Catalog, node: str) -> Instance:
    address = urlsplit(catalog.addresses[node])
    return Instance(host=address.hostname or "", port=address.port or 0, storeNames=catalog.stores_of(node))
