"""`/state/keyvalue` and `/state/keyvalues`: rows by key, by range, by prefix, and all of them, page by page."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from state.errors import InvalidArgumentError
from state.query.answers.origins import origin_headers
from state.query.reads.counts import CountQuestion, saturating_sum
from state.query.reads.gather import Gathered, complete
from state.query.reads.kinds import KEYED_KINDS, require_kind
from state.query.reads.pages import KeyRange, Scan
from state.query.routes.front import answer_key
from state.query.routes.paged import STREAMED, answer_scan, asked_by, check_keys
from state.query.routes.parameters import Cursor, KeyFormat, Limit, ReadRoute, Reverse
from state.query.routes.paths import key_behind, raw_tail, two_keys_behind
from state.query.routes.rows import KeyedRow
from state.query.routes.services import QueryServices


class CountView(BaseModel):
    """About how many rows a store has; `complete` is false if partitions are missing from it."""

    approximate_num_entries: int
    complete: bool


def keyvalue_routes(services: QueryServices) -> APIRouter:
    """The routes. `Front` answers the first one, unless its path is percent-encoded in an unusual way."""
    routes = APIRouter(tags=["key-value stores"], route_class=ReadRoute)
    _add_scans(routes, services)

    @routes.get("/state/keyvalue/{store}/{key:path}", response_model=KeyedRow)
    async def keyvalue(store: str, request: Request, key_format: KeyFormat = "string") -> Response:
        """The row of one key: `{"key": …, "value": …}`."""
        del store, key_format  # read from the path and query as they were sent
        answer = await answer_key(services.point, request.scope)
        headers = {name.decode(): value.decode() for name, value in answer.headers}
        return Response(answer.body, answer.status, headers)

    @routes.get("/state/keyvalues/{store}/count")
    async def count(store: str, request: Request, response: Response) -> CountView:
        """About how many rows a store has: an estimate on RocksDB, exact in memory. Stores of every kind."""
        services.catalog.definition(store)
        asked = asked_by(services, request)
        found: Gathered[int] = await services.gatherer.gather(CountQuestion(store), asked)
        complete(store, found, asked)
        response.headers.update(origin_headers(services.catalog.node, found.origins, found.missing))
        total = saturating_sum([answer.found for answer in found.answers])
        return CountView(approximate_num_entries=total, complete=not found.missing)

    return routes


def _add_scans(routes: APIRouter, services: QueryServices) -> None:
    @routes.get("/state/keyvalues/{store}/all", response_model=list[KeyedRow], responses=STREAMED)
    async def all_rows(
        request: Request, store: str, *, limit: Limit = 100, cursor: Cursor = None, reverse: Reverse = False
    ) -> Response:
        """All rows in the order of their keys' bytes: `[{"key": …, "value": …}, …]`."""
        require_kind(services.catalog.definition(store), *KEYED_KINDS)
        scan = Scan(store, KeyRange(), reverse)
        return await answer_scan(services, request, scan, limit=limit, cursor=cursor)

    @routes.get("/state/keyvalues/{store}/range/{bounds:path}", response_model=list[KeyedRow], responses=STREAMED)
    async def range_rows(
        request: Request,
        store: str,
        *,
        limit: Limit = 100,
        cursor: Cursor = None,
        reverse: Reverse = False,
        key_format: KeyFormat = "string",
    ) -> Response:
        """The rows from one key to another, `/range/{from}/{to}`, both included, in the order of their keys' bytes."""
        require_kind(services.catalog.definition(store), *KEYED_KINDS)
        lower, upper = two_keys_behind(request.scope, 4, key_format)
        check_keys(services, lower, upper)
        scan = Scan(store, KeyRange.between(lower, upper), reverse)
        return await answer_scan(services, request, scan, limit=limit, cursor=cursor)

    @routes.get("/state/keyvalues/{store}/prefix/{prefix:path}", response_model=list[KeyedRow], responses=STREAMED)
    async def prefix_rows(
        request: Request,
        store: str,
        *,
        limit: Limit = 100,
        cursor: Cursor = None,
        reverse: Reverse = False,
        key_format: KeyFormat = "string",
    ) -> Response:
        """The rows whose keys begin with some text, in the order of their keys' bytes."""
        require_kind(services.catalog.definition(store), *KEYED_KINDS)
        prefix = _prefix(request, key_format)
        check_keys(services, prefix)
        scan = Scan(store, KeyRange.starting_with(prefix), reverse)
        return await answer_scan(services, request, scan, limit=limit, cursor=cursor)


def _prefix(request: Request, key_format: str) -> bytes:
    if not raw_tail(request.scope, 4):
        raise InvalidArgumentError("the prefix is empty: put it at the end of the path, or ask for /all")
    return key_behind(request.scope, 4, key_format)
