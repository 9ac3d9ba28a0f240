"""`/state/ranked`: the highest scores, a key's place, and the rows with scores in a range."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel

from storekeeper.errors import InvalidArgumentError
from storekeeper.names import store_of
from storekeeper.node.query.answers.json_rows import key_json, ranked_row_json
from storekeeper.node.query.reads.kinds import require_kind
from storekeeper.node.query.reads.ranked import (
    ListQuery,
    PlacedRow,
    RankOfKey,
    StandingQuery,
    placed_rows,
    rank_of,
    ranked_rows,
    score_in,
    unranked_key,
)
from storekeeper.node.query.routes.paged import (
    JSON,
    AnyRow,
    asked_by,
    check_keys,
    joined,
    next_page,
    page_limits,
    past_headers,
)
from storekeeper.node.query.routes.parameters import AsOf, KeyFormat, PastPageParameters, ReadRoute, key_behind
from storekeeper.node.query.routes.services import QueryServices
from storekeeper.node.replicas.ranked_index import RankedIndex, Score
from storekeeper.snapshots.as_of import time_ms
from storekeeper.stores.store_definitions import ServedKind

_From = Annotated[str, Path(alias="from", description="The lowest score, included.")]
_To = Annotated[str, Path(alias="to", description="The highest score, included.")]


class RankedRowView(AnyRow):
    """A row and its place: 1 is the highest score, equal scores share one."""

    rank: int
    score: float


class RankView(BaseModel):
    """A key's place among `of` ranked rows."""

    rank: int
    key: str
    key_format: Literal["base64url"] | None = None
    score: float
    of: int


def ranked_routes(services: QueryServices) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["ranked stores"], route_class=ReadRoute)

    @routes.get("/state/ranked/{store}/top", response_model=list[RankedRowView])
    async def top(request: Request, store: str, page: Annotated[PastPageParameters, Query()]) -> Response:
        """The rows with the highest scores, highest first; equal scores by key, at the same place (1, 2, 2, 4)."""
        require_kind(services.catalog.definition(store), ServedKind.RANKED)
        return await _list(services, request, store, page)

    @routes.get("/state/ranked/{store}/scores/{from}/{to}", response_model=list[RankedRowView])
    async def scores(
        request: Request, store: str, lowest: _From, highest: _To, page: Annotated[PastPageParameters, Query()]
    ) -> Response:
        """The rows with scores between two, both included, highest first, with their places among all rows."""
        require_kind(services.catalog.definition(store), ServedKind.RANKED)
        return await _list(services, request, store, page, highest=score_in(highest), lowest=score_in(lowest))

    @routes.get("/state/ranked/{store}/rank/{key:path}", response_model=RankView)
    async def rank(
        request: Request, store: str, key_format: KeyFormat = "string", as_of: AsOf | None = None
    ) -> Response:
        """The place of one key: one more than the rows with a strictly higher score."""
        require_kind(services.catalog.definition(store), ServedKind.RANKED)
        key = key_behind(request.scope, 4, key_format)
        check_keys(services, key)
        if as_of is None:
            asked, partition = asked_by(services, request), services.catalog.partition(store, key)
            placed, gathered = await rank_of(services.gatherer, store, key, partition, asked)
            headers = services.gatherer.headers(gathered)
        else:
            placed = _past_rank(store, key, await _past(services, store, time_ms(as_of)))
            headers = past_headers(services)
        score = str(placed.score).encode()
        body = b'{"rank":%d,%b,"score":%b,"of":%d}' % (placed.rank, key_json(key), score, placed.of)
        return Response(body, headers=headers, media_type=JSON)

    return routes


async def _past(services: QueryServices, store: str, at_ms: int) -> RankedIndex:
    """The ranking of a time."""
    field, partition_of = services.catalog.definition(store).score_field, partial(services.catalog.partition, store)
    assert field is not None  # noqa: S101 (every ranked store has one)
    return await services.past.ranking(store, field, at_ms, partition_of)


def _past_rank(store: str, key: bytes, index: RankedIndex) -> RankOfKey:
    standing = StandingQuery(store, key).over(index)
    if standing.score is None:
        raise unranked_key(store, key)
    return RankOfKey(1 + standing.above, standing.score, standing.rows)


async def _list(
    services: QueryServices,
    request: Request,
    store: str,
    page: PastPageParameters,
    *,
    highest: Score | None = None,
    lowest: Score | None = None,
) -> Response:
    at_ms = None if page.as_of is None else time_ms(page.as_of)
    # Of the store, not of the variant that answers: a list goes on after another topic has taken over.
    identity = f"ranked|{store_of(store)}|{highest}|{lowest}{'' if at_ms is None else f'|{at_ms}'}".encode()
    after = None
    if page.cursor is not None:
        highest, after = _place_in(services.cursors.decode(identity, page.cursor))
    limits = page_limits(services, page.limit)
    query = ListQuery(store, limits.rows, limits.max_bytes, highest, after, lowest)
    if at_ms is None:
        rows, more, gathered = await ranked_rows(services.gatherer, query, asked_by(services, request))
        headers = services.gatherer.headers(gathered)
    else:
        index = await _past(services, store, at_ms)
        rows, more = placed_rows(query, [query.over([index.view()])])
        headers = past_headers(services)
    if more and rows:
        headers |= next_page(request, services.cursors.encode(identity, _place_of(rows[-1])))
    body = await joined(services, (ranked_row_json(row.rank, row.key, row.score, row.value) for row in rows))
    return Response(body, headers=headers, media_type=JSON)


def _place_of(row: PlacedRow) -> bytes:
    return b"%b|%b" % (str(row.score).encode(), row.key)


def _place_in(text: bytes) -> tuple[Score, bytes]:
    score, separator, key = text.partition(b"|")
    if not separator:
        raise InvalidArgumentError("the cursor doesn't belong to this list: begin again without one")
    return score_in(score.decode()), key
