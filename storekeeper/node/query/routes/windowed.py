"""`/state/windowed`: windows of a key, or of all keys, by their start; `/state/sessions`: the same for sessions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from storekeeper.errors import InvalidArgumentError
from storekeeper.node.query.answers.json_rows import RowLayout, RowTimes
from storekeeper.node.query.reads.kinds import require_kind
from storekeeper.node.query.reads.pages import KeyRange, Scan
from storekeeper.node.query.routes.paged import STREAMED, AnyRow, answer_scan, check_keys
from storekeeper.node.query.routes.parameters import (
    KeyScanParameters,
    ReadRoute,
    ScanParameters,
    key_behind,
    segments_behind,
)
from storekeeper.node.query.routes.services import QueryServices
from storekeeper.protocol.keys import decode_base64url
from storekeeper.serdes.keys.escaping import after_key, ended
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS, window_bounds
from storekeeper.stores.store_definitions import ServedKind


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
    async def windows(request: Request, store: str, page: Annotated[KeyScanParameters, Query()]) -> Response:
        """Windows that start between two times, both included, epoch milliseconds.

        `/state/windowed/{store}/{key}/{fromMs}/{toMs}` are those of one key in the order of time,
        `/state/windowed/{store}/all/{fromMs}/{toMs}` those of all keys in the order of keys, then time. A page of the
        latter may be short or empty and still have a next page. Write a key named `all` as base64url.
        """
        require_kind(services.catalog.definition(store), ServedKind.WINDOW)
        key, from_ms, to_ms = _asked_for(request)
        times = RowTimes(RowLayout.WINDOW, from_ms, to_ms)
        if key == b"all" and page.key_format == "string":
            return await answer_scan(services, request, Scan(store, KeyRange(), page.reverse, times), page)
        if page.key_format == "base64url":
            key = decode_base64url(key, "the key")
        check_keys(services, key)
        scan = Scan(store, KeyRange(*window_bounds(key, from_ms, to_ms)), page.reverse, times)
        return await answer_scan(services, request, scan, page, key)

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


_Time = Annotated[int, Field(ge=0, le=MAX_TIMESTAMP_MS, description="Epoch milliseconds.")]
_Gap = Annotated[int, Field(ge=0, le=MAX_TIMESTAMP_MS, description="The sessions' gap of inactivity, milliseconds.")]
_ENDED = "/state/sessions/{store}/ended/{fromMs}/{toMs}"


class SessionTimes(BaseModel):
    """When a session began and when its last record was, epoch milliseconds; both belong to it."""

    start_ms: int
    end_ms: int


class SessionRow(AnyRow):
    """One session."""

    window: SessionTimes


class SessionsParameters(KeyScanParameters):
    """Which page of a key's sessions."""

    from_ms: _Time = 0
    to_ms: _Time = MAX_TIMESTAMP_MS


class ActiveParameters(ScanParameters):
    """Which page of the sessions that are still open at a time."""

    at_ms: _Time
    gap_ms: _Gap


def session_routes(services: QueryServices) -> APIRouter:
    """The routes. Those with fixed words come first, so a key with such a name must be sent as base64url."""
    routes = APIRouter(tags=["session stores"], route_class=ReadRoute)
    _add_searches(routes, services)

    @routes.get("/state/sessions/{store}/{key:path}", response_model=list[SessionRow], responses=STREAMED)
    async def sessions_of(request: Request, store: str, page: Annotated[SessionsParameters, Query()]) -> Response:
        """The sessions of a key that overlap a time, both ends included, by their end and then their start.

        Write keys that look like `active` or `ended/…` as base64url.
        """
        require_kind(services.catalog.definition(store), ServedKind.SESSION)
        key = key_behind(request.scope, 3, page.key_format)
        check_keys(services, key)
        times = RowTimes(RowLayout.SESSION, starts_to_ms=page.to_ms, ends_from_ms=page.from_ms)
        prefix = ended(key)
        scan = Scan(store, KeyRange(prefix, after_key(prefix)), page.reverse, times)
        return await answer_scan(services, request, scan, page, key)

    return routes


def _add_searches(routes: APIRouter, services: QueryServices) -> None:
    @routes.get("/state/sessions/{store}/active", response_model=list[SessionRow], responses=STREAMED)
    async def active_sessions(request: Request, store: str, page: Annotated[ActiveParameters, Query()]) -> Response:
        """The sessions that a record at `at_ms` would still extend, in the order of keys.

        A page may be short or empty and still have a next page.
        """
        require_kind(services.catalog.definition(store), ServedKind.SESSION)
        times = RowTimes(
            RowLayout.SESSION,
            starts_to_ms=min(MAX_TIMESTAMP_MS, page.at_ms + page.gap_ms),
            ends_from_ms=max(0, page.at_ms - page.gap_ms),
        )
        return await answer_scan(services, request, Scan(store, KeyRange(), page.reverse, times), page)

    @routes.get(_ENDED, response_model=list[SessionRow], responses=STREAMED)
    async def ended_sessions(request: Request, store: str, page: Annotated[ScanParameters, Query()]) -> Response:
        """The sessions whose last record came between two times, both included, in the order of keys."""
        require_kind(services.catalog.definition(store), ServedKind.SESSION)
        first, last = segments_behind(request.scope, 4, at_least=2, form=_ENDED)
        times = RowTimes(
            RowLayout.SESSION,
            ends_from_ms=time_in(first, "the first time"),
            ends_to_ms=time_in(last, "the last time"),
        )
        return await answer_scan(services, request, Scan(store, KeyRange(), page.reverse, times), page)
