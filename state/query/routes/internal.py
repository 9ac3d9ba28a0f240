"""Routes between nodes: parts of an answer, from partitions that the asked node holds. Never forwarded."""

from __future__ import annotations

from typing import TypeVar

from fastapi import APIRouter, Request, Response

from state.errors import InvalidArgumentError, StoreRestoringError
from state.query.reads import counts, ranked, scans
from state.query.reads.gather import Answered, Question
from state.query.reads.page_wire import MEDIA_TYPE, encode_page, parse_scan_query
from state.query.reads.pages import PageLimits
from state.query.routes.paged import JSON, asked_by
from state.query.routes.services import QueryServices

_T = TypeVar("_T")


def internal_routes(services: QueryServices) -> APIRouter:
    """The routes."""
    routes = APIRouter(include_in_schema=False)

    async def answered(question: Question[_T], request: Request) -> Answered[_T]:
        known = services.catalog.partitions(question.store)
        if request.query_params.get("of") != str(known):
            # The topic was recreated: one of the two nodes doesn't know the new partition count yet.
            msg = f"{question.store} has {known} partitions as far as this node knows: ask again"
            raise StoreRestoringError(msg)
        partitions = _numbers(request.query_params.get("partitions", ""))
        return await services.gatherer.local(question, asked_by(services, request), partitions)

    @routes.get(scans.INTERNAL_PATH + "{store}")
    async def page(store: str, request: Request) -> Response:
        scan, limits = parse_scan_query(store, request.query_params)
        bounds = services.limits
        limits = PageLimits(
            min(limits.rows, bounds.max_page_rows),
            min(limits.max_bytes, bounds.max_page_bytes),
            min(limits.examined, bounds.max_examined_rows),
        )
        found = await answered(scans.PageQuestion(scan, limits), request)
        return Response(encode_page(found.found, found.origins), media_type=MEDIA_TYPE)

    @routes.get(counts.INTERNAL_PATH + "{store}")
    async def count(store: str, request: Request) -> Response:
        question = counts.CountQuestion(store)
        found = await answered(question, request)
        return Response(question.encode(found.found, found.origins), media_type=JSON)

    @routes.get(ranked.INTERNAL_PATH + "{store}/list")
    async def ranked_list(store: str, request: Request) -> Response:
        question = ranked.ListQuestion.parse(store, request.query_params)
        found = await answered(question, request)
        return Response(question.encode(found.found, found.origins), media_type=JSON)

    @routes.get(ranked.INTERNAL_PATH + "{store}/standing")
    async def standing(store: str, request: Request) -> Response:
        question = ranked.StandingQuestion.parse(store, request.query_params)
        found = await answered(question, request)
        return Response(question.encode(found.found, found.origins), media_type=JSON)

    return routes


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) <= 9 for part in parts):
        raise InvalidArgumentError("partitions are numbers with commas between them")
    return [int(part) for part in parts]
