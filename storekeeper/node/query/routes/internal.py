"""Routes between nodes: parts of an answer, from partitions that the asked node holds. Never forwarded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from fastapi import APIRouter, Request, Response

from storekeeper.errors import InvalidArgumentError, StoreRestoringError
from storekeeper.node.query.reads import many, pages, ranked, versions
from storekeeper.node.query.reads.gather import PartitionQuery
from storekeeper.node.query.routes.paged import JSON, asked_by
from storekeeper.node.query.routes.services import QueryServices

_T = TypeVar("_T")
_BYTES = "application/octet-stream"


def internal_routes(services: QueryServices) -> APIRouter:
    """The routes."""
    routes = APIRouter(include_in_schema=False)
    limits = services.limits
    most = pages.PageLimits(limits.max_page_rows, limits.max_page_bytes, limits.max_examined_rows)

    async def answered(
        query: PartitionQuery[_T], request: Request, media_type: str, partitions: Iterable[int] | None = None
    ) -> Response:
        known = services.catalog.partitions(query.store)
        if partitions is None:
            if request.query_params.get("of") != str(known):
                # The topic was recreated: one of the two nodes doesn't know the new partition count yet.
                msg = f"{query.store} has {known} partitions as far as this node knows: ask again"
                raise StoreRestoringError(msg)
            partitions = _numbers(request.query_params.get("partitions", ""))
        found = await services.gatherer.local(query, asked_by(services, request), partitions)
        return Response(query.encode(found.found, found.origins), media_type=media_type)

    @routes.get(pages.INTERNAL_PATH + "{store}")
    async def page(store: str, request: Request) -> Response:
        return await answered(pages.PageQuery.parse(store, request.query_params, most), request, _BYTES)

    @routes.get(versions.INTERNAL_PATH + "{store}")
    async def versions_of_key(store: str, request: Request) -> Response:
        return await answered(versions.VersionsQuery.parse(store, request.query_params, most), request, JSON)

    @routes.get(ranked.INTERNAL_PATH + "{store}/list")
    async def ranked_list(store: str, request: Request) -> Response:
        return await answered(ranked.ListQuery.parse(store, request.query_params), request, JSON)

    @routes.get(ranked.INTERNAL_PATH + "{store}/standing")
    async def standing(store: str, request: Request) -> Response:
        return await answered(ranked.StandingQuery.parse(store, request.query_params), request, JSON)

    @routes.post(many.INTERNAL_PATH + "{store}")
    async def keys(store: str, request: Request) -> Response:
        # This node's own partition count decides where a key is: the keys themselves are sent.
        query = many.KeysQuery.of(services.catalog, store, many.parse_wire_keys(await request.body()))
        return await answered(query, request, _BYTES, query.keys)

    return routes


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) <= 9 for part in parts):
        raise InvalidArgumentError("partitions are numbers with commas between them")
    return [int(part) for part in parts]
