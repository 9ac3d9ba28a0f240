"""`/state/history`: the changes of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from storekeeper.names import store_of
from storekeeper.node.query.answers.json_rows import RowLayout
from storekeeper.node.query.reads.stream_format import json_of
from storekeeper.node.query.routes.paged import JSON, AnyRow, check_keys, joined, page_limits, past_headers
from storekeeper.node.query.routes.parameters import KeyFormat, ReadRoute, key_behind
from storekeeper.node.query.routes.services import QueryServices
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.stores.store_definitions import ServedKind

if TYPE_CHECKING:
    from storekeeper.snapshots.key_changes import Change

_LAYOUTS = {ServedKind.WINDOW: RowLayout.WINDOW, ServedKind.SESSION: RowLayout.SESSION}
_Time = Annotated[int, Field(ge=0, le=MAX_TIMESTAMP_MS, description="Epoch milliseconds, included.")]


class ChangesParameters(BaseModel):
    """Which changes of a key."""

    key_format: KeyFormat = "string"
    from_ms: _Time = 0
    to_ms: _Time = MAX_TIMESTAMP_MS
    limit: int = Field(100, ge=1, description="Changes at most, the newest ones; at most the node's limit of 1000.")


class ChangeRow(AnyRow):
    """One change of a row; the value is null if it was deleted. Windows and sessions have their times in `window`.

    `batch` and `offset` are null if a new generation began without the row.
    """

    at_ms: int
    generation: int
    batch: int | None
    partition: int
    offset: int | None


def history_routes(services: QueryServices) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["history"], route_class=ReadRoute)

    @routes.get("/state/history/{store}/{key:path}", response_model=list[ChangeRow])
    async def history_of(request: Request, store: str, page: Annotated[ChangesParameters, Query()]) -> Response:
        """The changes of a key that batches of a time made, both ends included, the newest first.

        Of a key of windows or sessions, the changes of all of them.
        """
        definition = services.catalog.definition(store)
        key = key_behind(request.scope, 3, page.key_format)
        check_keys(services, key)
        limits = page_limits(services, page.limit)
        found = await services.past.changes(store, key, page.from_ms, page.to_ms, limits.rows)
        layout = _LAYOUTS.get(definition.kind)
        body = await joined(services, (_row(services, store_of(store), layout, change) for change in found))
        return Response(body, headers=past_headers(services), media_type=JSON)

    return routes


def _row(services: QueryServices, store: str, layout: RowLayout | None, change: Change) -> bytes:
    value = b"null" if change.value is None else services.past.shown(store, change.value)
    places = (change.at_ms, change.generation, change.batch, change.partition, change.offset)
    at_ms, generation, batch, partition, offset = (b"null" if one is None else b"%d" % one for one in places)
    head = b'{"at_ms":%b,"generation":%b,"batch":%b,"partition":%b,"offset":%b,'
    return head % (at_ms, generation, batch, partition, offset) + json_of(layout, change.row_key, value)[1:]
