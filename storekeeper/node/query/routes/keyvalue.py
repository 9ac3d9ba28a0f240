"""`/state/keyvalue` and `/state/keyvalues`: rows by key, by several keys, by range, by prefix, and all of them."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from storekeeper.errors import InvalidArgumentError
from storekeeper.node.query.reads.kinds import KEYED_KINDS, require_kind
from storekeeper.node.query.reads.many import KeysQuery, parse_keys, rows_of_keys
from storekeeper.node.query.reads.pages import KeyRange, Scan
from storekeeper.node.query.reads.point import check_key
from storekeeper.node.query.routes.paged import JSON, STREAMED, KeyedRow, answer_scan, asked_by, check_keys, response_of
from storekeeper.node.query.routes.parameters import (
    AsOf,
    KeyFormat,
    KeyScanParameters,
    ReadRoute,
    ScanParameters,
    key_behind,
    raw_tail,
    two_keys_behind,
)
from storekeeper.node.query.routes.services import QueryServices
from storekeeper.protocol.keys import decode_base64url


def keyvalue_routes(services: QueryServices) -> APIRouter:
    """The routes. `Front` answers the first one, unless its path is percent-encoded in an unusual way."""
    routes = APIRouter(tags=["key-value stores"], route_class=ReadRoute)
    _add_scans(routes, services)

    @routes.get("/state/keyvalue/{store}/{key:path}", response_model=KeyedRow)
    async def keyvalue(
        store: str, request: Request, key_format: KeyFormat = "string", as_of: AsOf | None = None
    ) -> Response:
        """The row of one key: `{"key": …, "value": …}`; of a versioned store its newest version. Or that of a time."""
        del store, key_format, as_of  # read from the path and query as they were sent
        return response_of(await services.point.answer_request(request.scope))

    _add_several_keys(routes, services)
    return routes


def _add_scans(routes: APIRouter, services: QueryServices) -> None:
    @routes.get("/state/keyvalues/{store}/all", response_model=list[KeyedRow], responses=STREAMED)
    async def all_rows(request: Request, store: str, page: Annotated[ScanParameters, Query()]) -> Response:
        """All rows in the order of their keys' bytes: `[{"key": …, "value": …}, …]`."""
        require_kind(services.catalog.definition(store), *KEYED_KINDS)
        return await answer_scan(services, request, Scan(store, KeyRange(), page.reverse), page)

    @routes.get("/state/keyvalues/{store}/range/{bounds:path}", response_model=list[KeyedRow], responses=STREAMED)
    async def range_rows(request: Request, store: str, page: Annotated[KeyScanParameters, Query()]) -> Response:
        """The rows from one key to another, `/range/{from}/{to}`, both included, in the order of their keys' bytes."""
        require_kind(services.catalog.definition(store), *KEYED_KINDS)
        lower, upper = two_keys_behind(request.scope, 4, page.key_format)
        check_keys(services, lower, upper)
        return await answer_scan(services, request, Scan(store, KeyRange.between(lower, upper), page.reverse), page)

    @routes.get("/state/keyvalues/{store}/prefix/{prefix:path}", response_model=list[KeyedRow], responses=STREAMED)
    async def prefix_rows(request: Request, store: str, page: Annotated[KeyScanParameters, Query()]) -> Response:
        """The rows whose keys begin with some text, in the order of their keys' bytes."""
        require_kind(services.catalog.definition(store), *KEYED_KINDS)
        prefix = _prefix(request, page.key_format)
        check_keys(services, prefix)
        return await answer_scan(services, request, Scan(store, KeyRange.starting_with(prefix), page.reverse), page)


def _prefix(request: Request, key_format: str) -> bytes:
    if not raw_tail(request.scope, 4):
        raise InvalidArgumentError("the prefix is empty: put it at the end of the path, or ask for /all")
    return key_behind(request.scope, 4, key_format)


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


def _add_several_keys(routes: APIRouter, services: QueryServices) -> None:
    async def answered(store: str, keys: list[bytes], request: Request) -> Response:
        require_kind(services.catalog.definition(store), *KEYED_KINDS)
        if not 1 <= len(keys) <= services.limits.max_page_rows:
            msg = f"a request names 1 to {services.limits.max_page_rows} keys, not {len(keys)}"
            raise InvalidArgumentError(msg)
        for key in keys:
            check_key(key, services.limits.max_key_bytes)
        query = KeysQuery.of(services.catalog, store, keys)
        body, gathered = await rows_of_keys(services.gatherer, query, keys, asked_by(services, request))
        return Response(body, headers=services.gatherer.headers(gathered), media_type=JSON)

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


def _raw_keys(request: Request) -> list[bytes]:
    """The keys as they were sent: bytes that aren't UTF-8 are keys, too."""
    query_string: bytes = request.scope["query_string"]
    keys = [part[4:] for part in query_string.split(b"&") if part.startswith(b"key=")]
    if not keys:
        raise InvalidArgumentError("name at least one key: ?key=a&key=b")
    return [unquote_to_bytes(key.replace(b"+", b" ")) for key in keys]
