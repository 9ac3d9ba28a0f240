"""`/state/keyvalues/{store}`: the rows of several keys in one request."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from state.errors import InvalidArgumentError
from state.protocol.keys import decode_base64url
from state.query.answers.origins import origin_headers
from state.query.reads.kinds import KEYED_KINDS, require_kind
from state.query.reads.many import parse_keys
from state.query.routes.paged import JSON, asked_by
from state.query.routes.parameters import KeyFormat, ReadRoute
from state.query.routes.rows import KeyedRow
from state.query.routes.services import QueryServices


class KeysBody(BaseModel):
    """Which rows to bring."""

    keys: list[str]
    key_format: str = "string"


class RowsView(BaseModel):
    """Rows in the order asked; the value is null where the store has no such key.

    `complete` is false if some were left out by `partial=ok`.
    """

    rows: list[KeyedRow]
    complete: bool


_BODY = {"requestBody": {"content": {JSON: {"schema": KeysBody.model_json_schema()}}, "required": True}}


def several_keys_routes(services: QueryServices) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["key-value stores"], route_class=ReadRoute)

    async def answered(store: str, keys: list[bytes], request: Request) -> Response:
        require_kind(services.catalog.definition(store), *KEYED_KINDS)
        found = await services.many.answer(store, keys, asked_by(services, request))
        headers = origin_headers(services.catalog.node, found.found.origins, found.found.missing)
        return Response(found.body, headers=headers, media_type=JSON)

    @routes.get("/state/keyvalues/{store}", response_model=RowsView)
    async def several_keys(
        store: str,
        request: Request,
        key: Annotated[list[str], Query(description="A key; give it once for each row.")],
        key_format: KeyFormat = "string",
    ) -> Response:
        """The rows of several keys, `?key=a&key=b`: `{"rows": [{"key": …, "value": …}, …], "complete": true}`."""
        if key_format == "base64url":
            return await answered(store, [decode_base64url(text, "a key") for text in key], request)
        return await answered(store, _raw_keys(request), request)

    @routes.post("/state/keyvalues/{store}", response_model=RowsView, openapi_extra=_BODY)
    async def several_keys_of_body(store: str, request: Request) -> Response:
        """The same with the keys in the body: `{"keys": ["a", "b"]}`."""
        return await answered(store, parse_keys(await request.body()), request)

    return routes


def _raw_keys(request: Request) -> list[bytes]:
    """The keys as they were sent: bytes that aren't UTF-8 are keys, too."""
    query: bytes = request.scope["query_string"]
    found = [part[4:] for part in query.split(b"&") if part.startswith(b"key=")]
    if not found:
        raise InvalidArgumentError("name at least one key: ?key=a&key=b")
    return [unquote_to_bytes(key.replace(b"+", b" ")) for key in found]
