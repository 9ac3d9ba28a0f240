"""`/state/windowed`: windows of a key, or of all keys, by the time at which they start."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from state.errors import InvalidArgumentError
from state.keys.windows import MAX_TIMESTAMP_MS, window_bounds
from state.protocol.keys import decode_base64url
from state.query.answers.row_times import RowLayout, RowTimes
from state.query.reads.kinds import require_kind
from state.query.reads.pages import KeyRange, Scan
from state.query.routes.paged import STREAMED, answer_key_scan, answer_scan, check_keys
from state.query.routes.parameters import Cursor, KeyFormat, Limit, ReadRoute, Reverse
from state.query.routes.paths import segments_behind
from state.query.routes.rows import AnyRow
from state.query.routes.services import QueryServices
from state.store_definitions import ServedKind


class WindowStart(BaseModel):
    """When a window begins, epoch milliseconds."""

    start_ms: int


class WindowRow(AnyRow):
    """One window. The key is written `key@start`, as Kafka Streams' examples show it."""

    window: WindowStart


def windowed_routes(services: QueryServices) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["window stores"], route_class=ReadRoute)

    @routes.get("/state/windowed/{store}/{bounds:path}", response_model=list[WindowRow], responses=STREAMED)
    async def windows(
        request: Request,
        store: str,
        *,
        limit: Limit = 100,
        cursor: Cursor = None,
        reverse: Reverse = False,
        key_format: KeyFormat = "string",
    ) -> Response:
        """Windows that start between two times, both included, epoch milliseconds.

        `/state/windowed/{store}/{key}/{fromMs}/{toMs}` are those of one key in the order of time,
        `/state/windowed/{store}/all/{fromMs}/{toMs}` those of all keys in the order of keys, then time. A page of the
        latter may be short or empty and still have a next page. Write a key named `all` as base64url.
        """
        require_kind(services.catalog.definition(store), ServedKind.WINDOW)
        key, from_ms, to_ms = _asked_for(request)
        if key == b"all" and key_format == "string":
            times = RowTimes(RowLayout.WINDOW, from_ms, to_ms)
            scan = Scan(store, KeyRange(), reverse, times)
            return await answer_scan(services, request, scan, limit=limit, cursor=cursor, layout=RowLayout.WINDOW)
        if key_format == "base64url":
            key = decode_base64url(key, "the key")
        check_keys(services, key)
        times = RowTimes(RowLayout.WINDOW, from_ms, to_ms)
        scan = Scan(store, KeyRange(*window_bounds(key, from_ms, to_ms)), reverse, times)
        return await answer_key_scan(services, request, scan, key, limit=limit, cursor=cursor, layout=RowLayout.WINDOW)

    return routes


def time_in(text: bytes, what: str) -> int:
    """A time in a path, epoch milliseconds. Raises InvalidArgumentError."""
    if not (text.isdigit() and len(text) <= 19 and int(text) <= MAX_TIMESTAMP_MS):
        msg = f"{what} must be epoch milliseconds, not {text[:40].decode(errors='replace')!r}"
        raise InvalidArgumentError(msg)
    return int(text)


def _asked_for(request: Request) -> tuple[bytes, int, int]:
    *key, first, last = segments_behind(request.scope, 3, at_least=3, form="/windowed/{store}/{key}/{fromMs}/{toMs}")
    return b"/".join(key), time_in(first, "the first time"), time_in(last, "the last time")
