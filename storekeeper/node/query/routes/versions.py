"""`/state/versions`: the versions of a key in a versioned store."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from storekeeper.node.query.reads.kinds import require_kind
from storekeeper.node.query.reads.versions import VersionsQuery, version_json
from storekeeper.node.query.routes.paged import JSON, VersionRow, asked_by, check_keys, joined, next_page, page_limits
from storekeeper.node.query.routes.parameters import KeyFormat, PageParameters, ReadRoute, key_behind
from storekeeper.node.query.routes.services import QueryServices
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.stores.store_definitions import ServedKind

_Time = Annotated[int, Field(ge=0, le=MAX_TIMESTAMP_MS, description="Epoch milliseconds, included.")]


class VersionsParameters(PageParameters):
    """Which page of a key's versions, and of which time."""

    key_format: KeyFormat = "string"
    from_ms: _Time = 0
    to_ms: _Time = MAX_TIMESTAMP_MS


def version_routes(services: QueryServices) -> APIRouter:
    """The routes. `/state/keyvalue` answers for the newest version, and for that of one time."""
    routes = APIRouter(tags=["versioned stores"], route_class=ReadRoute)

    @routes.get("/state/versions/{store}/{key:path}", response_model=list[VersionRow])
    async def versions_of(request: Request, store: str, page: Annotated[VersionsParameters, Query()]) -> Response:
        """The versions of a key that were valid at some time between two, both included, the newest first.

        They go back as far as the store's history. A key without versions there has an empty list.
        """
        require_kind(services.catalog.definition(store), ServedKind.VERSIONED)
        key = key_behind(request.scope, 3, page.key_format)
        check_keys(services, key)
        asked = VersionsQuery(store, key, page.from_ms, page.to_ms, page_limits(services, page.limit))
        query = asked
        if page.cursor is not None:
            query = asked.before(services.cursors.decode(asked.identity(), page.cursor))
        services.gatherer.check_free()
        partition = services.catalog.partition(store, key)
        gathered = await services.gatherer.complete(query, asked_by(services, request), (partition,))
        headers = services.gatherer.headers(gathered)
        versions = [version for part in gathered.contents for version in part.versions]
        if any(part.more for part in gathered.contents):
            headers |= next_page(request, services.cursors.encode(asked.identity(), b"%d" % versions[-1].timestamp_ms))
        body = await joined(services, (version_json(key, version) for version in versions))
        return Response(body, headers=headers, media_type=JSON)

    return routes
