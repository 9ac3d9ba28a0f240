"""`/state/keyvalue` and `/state/keyvalues`: rows by key, by range, and all of them, page by page."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request, Response

from state.errors import InvalidArgumentError
from state.query.answer import COMPLETE, NEXT_CURSOR, SERVED_BY
from state.query.hot_route import is_forwarded
from state.query.json_rows import decode_base64url, row_json
from state.query.pages import KeyRange, PageLimits
from state.query.problems import KeyTooLongError
from state.query.raw_path import key_behind, two_keys_behind
from state.query.scans import INTERNAL_PATH, complete, encode_page
from state.query.services import QueryServices

_JSON = "application/json"
_Limit = Annotated[int, Query(ge=1, description="Rows of a page, at most the node's limit of 1000.")]
_Cursor = Annotated[str | None, Query(description="`Storekeeper-Next-Cursor` of the page before.")]
_Partial = Annotated[str, Query(pattern="^(ok)?$", description="`ok`: leave out partitions that can't answer now.")]
_KeyFormat = Annotated[str, Query(pattern="^(string|base64url)$", description="How the key is written.")]


def keyvalue_routes(services: QueryServices) -> APIRouter:
    """The routes. The first one is answered by the hot route in front of them; here it is documented."""
    routes = APIRouter(tags=["key-value stores"])

    @routes.get("/state/keyvalue/{store}/{key:path}")
    async def keyvalue(store: str, request: Request, key_format: _KeyFormat = "string") -> Response:
        """The row of one key: `{"key": …, "value": …}`."""
        key = key_behind(request.scope, 3)
        key = decode_base64url(key, "the key") if key_format == "base64url" else key
        answer = await services.point.answer(store, key, forwarded=is_forwarded(request.scope))
        headers = {name.decode(): value.decode() for name, value in answer.headers}
        return Response(answer.body, answer.status, headers)

    @routes.get("/state/keyvalues/{store}/all")
    async def all_rows(
        request: Request, store: str, limit: _Limit = 100, cursor: _Cursor = None, partial: _Partial = ""
    ) -> Response:
        """All rows in the order of their keys' bytes: `[{"key": …, "value": …}, …]`."""
        return await _page(
            services, request, store=store, keys=KeyRange(), limit=limit, cursor=cursor, partial=partial == "ok"
        )

    @routes.get("/state/keyvalues/{store}/range/{bounds:path}")
    async def range_rows(
        request: Request,
        store: str,
        *,
        limit: _Limit = 100,
        cursor: _Cursor = None,
        partial: _Partial = "",
        key_format: _KeyFormat = "string",
    ) -> Response:
        """The rows from one key to another, both included, in the order of their keys' bytes."""
        lower, upper = two_keys_behind(request.scope, 4)
        if key_format == "base64url":
            lower, upper = decode_base64url(lower, "the first key"), decode_base64url(upper, "the last key")
        if max(len(lower), len(upper)) > services.limits.max_key_bytes:
            msg = f"a bound is over the limit of {services.limits.max_key_bytes} bytes"
            raise KeyTooLongError(msg)
        keys = KeyRange(lower, upper)
        return await _page(
            services, request, store=store, keys=keys, limit=limit, cursor=cursor, partial=partial == "ok"
        )

    return routes


def internal_routes(services: QueryServices) -> APIRouter:
    """What nodes ask one another: rows of partitions that the asked node holds."""
    routes = APIRouter(include_in_schema=False)

    @routes.get(INTERNAL_PATH + "{store}")
    async def internal_scan(
        store: str,
        *,
        partitions: str,
        rows: Annotated[int, Query(ge=1)],
        max_bytes: Annotated[int, Query(ge=1, alias="bytes")],
        lower: str | None = None,
        upper: str | None = None,
    ) -> Response:
        services.catalog.topic(store)
        bounds = (None if bound is None else decode_base64url(bound, "a bound") for bound in (lower, upper))
        limits = PageLimits(min(rows, services.limits.max_page_rows), min(max_bytes, services.limits.max_page_bytes))
        found = await services.scans.local_page(store, _numbers(partitions), KeyRange(*bounds), limits)
        return Response(encode_page(found), media_type=_JSON)

    return routes


async def _page(
    services: QueryServices,
    request: Request,
    *,
    store: str,
    keys: KeyRange,
    limit: int,
    cursor: str | None,
    partial: bool,
) -> Response:
    if limit > services.limits.max_page_rows:
        msg = f"a page has at most {services.limits.max_page_rows} rows: ask for fewer and follow the cursor"
        raise InvalidArgumentError(msg)
    scan = f"{store}|{keys.lower!r}|{keys.upper!r}".encode()
    rest = keys if cursor is None else keys.behind(services.cursors.decode(scan, cursor))
    found = await services.scans.page(store, rest, PageLimits(limit, services.limits.max_page_bytes))
    page = found.page if partial else complete(store, found)
    headers = {
        SERVED_BY.decode(): services.catalog.node,
        COMPLETE.decode(): "false" if found.missing else "true",
    }
    if page.more and page.rows:
        following = services.cursors.encode(scan, page.rows[-1][0])
        headers[NEXT_CURSOR.decode()] = following
        path = quote(request.scope["raw_path"], safe="/%")
        kept = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
        headers["link"] = f'<{path}?{urlencode([*kept, ("cursor", following)])}>; rel="next"'
    body = b"[%b]" % b",".join(row_json(key, value) for key, value in page.rows)
    return Response(body, headers=headers, media_type=_JSON)


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InvalidArgumentError("partitions are numbers with commas between them") from error
