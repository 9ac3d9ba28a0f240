"""Answers of routes that read many rows: a page with a cursor for the next one, or all rows as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Literal
from urllib.parse import quote, urlencode

from fastapi import Request, Response
from pydantic import BaseModel

from storekeeper.errors import InvalidArgumentError
from storekeeper.names import store_of
from storekeeper.node.query.answers.answer import NEXT_CURSOR, Answer, KeyTooLongError
from storekeeper.node.query.answers.json_rows import RowLayout, timed_key
from storekeeper.node.query.reads.freshness_gate import Asked
from storekeeper.node.query.reads.pages import PageLimits, PageQuery, Scan, scan_page
from storekeeper.node.query.reads.point import asked_path
from storekeeper.node.query.reads.stream_format import (
    ARROW,
    NDJSON,
    ArrowFormat,
    NdjsonFormat,
    StreamFormat,
    json_of,
    load_arrow,
)
from storekeeper.node.query.routes.parameters import ScanParameters
from storekeeper.node.query.routes.services import QueryServices
from storekeeper.protocol.freshness import FreshnessRequirement
from storekeeper.snapshots.as_of import time_ms

JSON = "application/json"
_ROWS_AT_A_TIME = 64

STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            JSON: {},
            NDJSON: {"schema": {"type": "string"}},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
        "description": "A page of rows, or all of them as a stream.",
    }
}
"""The documented responses of a route that also streams."""


def response_of(answer: Answer) -> Response:
    """An answer as the framework's response."""
    return Response(answer.body, answer.status, {name.decode(): value.decode() for name, value in answer.headers})


def asked_by(services: QueryServices, request: Request) -> Asked:
    """The requirement of a request. Raises InvalidArgumentError if it can't be read."""
    return services.gatherer.asked(FreshnessRequirement.parse(request.scope["query_string"]))


def check_keys(services: QueryServices, *keys: bytes) -> None:
    """Raises KeyTooLongError if a key or bound is over the node's limit."""
    if max(map(len, keys)) > services.limits.max_key_bytes:
        msg = f"a key or bound is over the limit of {services.limits.max_key_bytes} bytes"
        raise KeyTooLongError(msg)


def page_limits(services: QueryServices, rows: int) -> PageLimits:
    """The limits of a page of `rows` rows. Raises InvalidArgumentError if the node allows no such page."""
    if rows > services.limits.max_page_rows:
        msg = f"a page has at most {services.limits.max_page_rows} rows: ask for fewer and follow the cursor"
        raise InvalidArgumentError(msg)
    return PageLimits(rows, services.limits.max_page_bytes, services.limits.max_examined_rows)


async def answer_scan(
    services: QueryServices,
    request: Request,
    scan: Scan,
    page: ScanParameters,
    key: bytes | None = None,
) -> Response:
    """The answer to a scan of the rows now, in the format of the request's `Accept`; or of the rows at a time.

    With `key`, the scan is within that key's rows: only its partition is asked.
    """
    if page.as_of is not None:
        return await _answer_past(services, request, scan, page, at_ms=time_ms(page.as_of), of_one_key=key is not None)
    partitions = None if key is None else (services.catalog.partition(scan.store, key),)
    layout = None if scan.times is None else scan.times.layout
    asked = asked_by(services, request)
    form = await stream_format(services, request, scan, layout)
    rest = scan if page.cursor is None else scan.beyond(services.cursors.decode(scan.identity(), page.cursor))
    if form is not None:
        return await services.streams.answer(rest, asked, form, partitions)
    query = PageQuery(rest, page_limits(services, page.limit))
    read, gathered = await scan_page(services.gatherer, query, asked, partitions)
    headers = services.gatherer.headers(gathered)
    if read.reached is not None:
        headers |= next_page(request, services.cursors.encode(scan.identity(), read.reached))
    body = await joined(services, (json_of(layout, *row) for row in read.rows))
    return Response(body, headers=headers, media_type=JSON)


async def _answer_past(
    services: QueryServices, request: Request, scan: Scan, page: ScanParameters, *, at_ms: int, of_one_key: bool
) -> Response:
    if first_named(request.headers.get("accept", "")) != JSON:
        raise InvalidArgumentError("rows as of a time come in pages: accept application/json")
    limits = page_limits(services, page.limit)
    identity = b"%b|%d" % (scan.identity(), at_ms)
    rest = scan if page.cursor is None else scan.beyond(services.cursors.decode(identity, page.cursor))
    layout, store = None if scan.times is None else scan.times.layout, store_of(scan.store)

    def partition_of(row_key: bytes) -> int:
        timed = None if layout is None else timed_key(layout, row_key)
        return services.catalog.partition(scan.store, row_key if timed is None else timed.key)

    read = await services.past.page(rest, limits, at_ms, partition_of, of_one_key=of_one_key)
    headers = past_headers(services)
    if read.reached is not None:
        headers |= next_page(request, services.cursors.encode(identity, read.reached))
    rows = (json_of(layout, row_key, services.past.shown(store, value)) for row_key, value in read.rows)
    return Response(await joined(services, rows), headers=headers, media_type=JSON)


def past_headers(services: QueryServices) -> dict[str, str]:
    """Where an answer for a time comes from."""
    return {name.decode(): value.decode() for name, value in services.past.headers}


async def stream_format(
    services: QueryServices, request: Request, scan: Scan, layout: RowLayout | None
) -> StreamFormat | None:
    """The format of the stream that a request asks for; None if it wants a page.

    Raises:
        NotAcceptableError: if this node can't write it.
    """
    media_type = first_named(request.headers.get("accept", ""))
    if media_type == NDJSON:
        return NdjsonFormat(layout)
    if media_type == ARROW:
        await asyncio.to_thread(load_arrow)
        return ArrowFormat(layout, lambda key: services.catalog.partition(scan.store, key))
    return None


def first_named(accept: str) -> str:
    """The format that an `Accept` names first, of those that a scan has; JSON if it names none.

    Generated clients name all that the OpenAPI document lists, and read only the first.
    """
    places = {accept.find(form): form for form in (JSON, NDJSON, ARROW) if form in accept}
    return places[min(places)] if places else JSON


def next_page(request: Request, cursor: str) -> dict[str, str]:
    """The headers that link to the next page."""
    path = quote(asked_path(request.scope), safe="/%")
    kept = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
    link = f'<{path}?{urlencode([*kept, ("cursor", cursor)])}>; rel="next"'
    return {NEXT_CURSOR.decode(): cursor, "link": link}


async def joined(services: QueryServices, rows: Iterable[bytes]) -> bytes:
    """Rows as a JSON array, written in runs short enough not to hold up other requests."""
    written: list[bytes] = []
    for number, row in enumerate(rows):
        if number % _ROWS_AT_A_TIME == 0:
            await services.gatherer.scheduler.take()
        written.append(row)
    return b"[%b]" % b",".join(written)


class AnyRow(BaseModel):
    """`key_format` and `value_format` are there if a key is not UTF-8 or a value is not JSON: then it is base64url."""

    key: str
    key_format: Literal["base64url"] | None = None
    value: object
    value_format: Literal["base64url"] | None = None


class KeyedRow(AnyRow):
    """A row. Its value is the JSON that the app wrote. In a versioned store it has the times of a `VersionRow`."""

    timestamp_ms: int | None = None
    valid_to_ms: int | None = None


class VersionRow(AnyRow):
    """One version of a key: the value from `timestamp_ms` until before `valid_to_ms`, absent while it is valid."""

    timestamp_ms: int
    valid_to_ms: int | None = None
