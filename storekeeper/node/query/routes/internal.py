"""Routes between nodes: parts of an answer, and digests, of partitions that the asked node holds. Never forwarded.

The digest of a replica: compares two copies of a partition by a few bytes instead of all rows.

Keys are spread over buckets, each with its own digest. If two digests differ, only the entries of the differing buckets
need to be compared, not the whole partition.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel

from storekeeper.errors import InvalidArgumentError, StoreRestoringError
from storekeeper.node.query.answers.answer import TooManyScansError
from storekeeper.node.query.reads import many, pages, ranked, versions
from storekeeper.node.query.reads.cooperative_scheduler import CooperativeScheduler, Steps
from storekeeper.node.query.reads.gather import PartitionQuery, asked_query, packed
from storekeeper.node.query.routes.paged import asked_by
from storekeeper.node.query.routes.services import QueryServices
from storekeeper.node.replicas.replica import Replica
from storekeeper.stores.row_digest import BUCKETS, bucket_of, moved, stored_row_hash, to_hex

_ROWS_A_STEP = 64
_RENEWED_LOOKS = 160
_PAUSE_S = 0.05


@dataclass(slots=True)
class ReplicaDigest:
    """A replica's content at a changelog offset. `entries` are (key, hash of the entry), of wanted buckets only."""

    offset: int
    rows: int = 0
    buckets: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    entries: list[tuple[bytes, int]] = field(default_factory=list)

    @property
    def digest(self) -> int:
        """The digest of all rows."""
        return moved(0, added=sum(self.buckets), removed=0)


def digest_of(replica: Replica, buckets: Collection[int] = ()) -> Steps[ReplicaDigest]:
    """Reads all rows of a replica, piece by piece, all as of the first step. Raises as `Replica.get` does."""
    with replica.scan_at_offset() as (offset, rows):
        digest = ReplicaDigest(offset)
        for key, row in rows:
            bucket, entry = bucket_of(key), stored_row_hash(key, row.value, row.timestamp_ms, row.schema_version)
            digest.rows += 1
            digest.buckets[bucket] = moved(digest.buckets[bucket], added=entry, removed=0)
            if bucket in buckets:
                digest.entries.append((key, entry))
            if digest.rows % _ROWS_A_STEP == 0:
                yield
    return digest


def entries_as_json(digest: ReplicaDigest) -> list[tuple[str, str]]:
    """The entries as (base64url of the key, hexadecimal hash)."""
    return [(base64.urlsafe_b64encode(key).decode().rstrip("="), to_hex(entry)) for key, entry in digest.entries]


_T = TypeVar("_T")
_BYTES = "application/octet-stream"


def internal_routes(services: QueryServices) -> APIRouter:
    """The routes."""
    routes = APIRouter(include_in_schema=False)
    limits = services.limits
    most = pages.PageLimits(limits.max_page_rows, limits.max_page_bytes, limits.max_examined_rows)

    async def answered(
        query: PartitionQuery[_T], request: Request, partitions: Iterable[int] | None = None
    ) -> Response:
        known = services.catalog.partitions(query.store)
        if partitions is None:
            if request.query_params.get("of") != str(known):
                # The topic was recreated: one of the two nodes doesn't know the new partition count yet.
                msg = f"{query.store} has {known} partitions as far as this node knows: ask again"
                raise StoreRestoringError(msg)
            partitions = _numbers(request.query_params.get("partitions", ""))
        part = await services.gatherer.local(query, asked_by(services, request), partitions)
        return Response(packed(part.content, part.origins), media_type=_BYTES)

    @routes.get("/internal/PageQuery/{store}")
    async def page(query: str, request: Request) -> Response:
        return await answered(asked_query(pages.PageQuery, query).within(most), request)

    @routes.get("/internal/VersionsQuery/{store}")
    async def versions_of_key(query: str, request: Request) -> Response:
        return await answered(asked_query(versions.VersionsQuery, query).within(most), request)

    @routes.get("/internal/ListQuery/{store}")
    async def ranked_list(query: str, request: Request) -> Response:
        return await answered(asked_query(ranked.ListQuery, query), request)

    @routes.get("/internal/StandingQuery/{store}")
    async def standing(query: str, request: Request) -> Response:
        return await answered(asked_query(ranked.StandingQuery, query), request)

    @routes.post(many.INTERNAL_PATH + "{store}")
    async def keys(store: str, request: Request) -> Response:
        # This node's own partition count decides where a key is: the keys themselves are sent.
        query = many.KeysQuery.of(services.catalog, store, many.parse_wire_keys(await request.body()))
        return await answered(query, request, query.keys)

    return routes


def repair_routes(services: QueryServices) -> APIRouter:
    """The route."""
    routes = APIRouter(include_in_schema=False)

    @routes.post("/internal/repair/{store}/{partition}", status_code=202)
    async def repair(store: str, partition: Annotated[int, Path(ge=0, le=999_999_999)]) -> None:
        """Sets this node's replica aside: verification found that its rows differ from the changelog."""
        _held(services, store, partition).doubt()

    @routes.post("/internal/renew/{store}/{partition}", status_code=204)
    async def renew(store: str, partition: Annotated[int, Path(ge=0, le=999_999_999)]) -> None:
        """Deletes this node's replica with all of its files, and begins to restore it: its rows are to be erased."""
        replica = _held(services, store, partition)
        replica.doubt(for_good=True)
        for _ in range(_RENEWED_LOOKS):
            if not replica.damaged:  # its follower has opened it anew
                return
            await asyncio.sleep(_PAUSE_S)
        msg = f"partition {partition} of {store} is not made anew yet: ask again"
        raise StoreRestoringError(msg)

    return routes


def _held(services: QueryServices, store: str, partition: int) -> Replica:
    # A signed request names the store as its asker does, and is not renamed on its way here as a read is.
    variant = services.catalog.variant(store)
    replica = services.catalog.replica(variant, partition)
    if replica is None:
        raise services.catalog.not_held(variant, partition)
    return replica


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) <= 9 for part in parts):
        raise InvalidArgumentError("partitions are numbers with commas between them")
    return [int(part) for part in parts]


_MAX_WANTED = 8
_MAX_WAITING = 8


class DigestView(BaseModel):
    """A replica's content at a changelog offset (exclusive). Digests are hexadecimal; they cover a row's time too."""

    store: str
    partition: int
    topic: str
    node: str
    offset: int
    rows: int
    digest: str
    set_aside_ms: int | None
    buckets: list[str]
    entries: list[tuple[str, str]]


class _OneByOne:
    """Makes one digest after the other, as each reads a whole partition. Belongs to one event loop."""

    def __init__(self, scheduler: CooperativeScheduler) -> None:
        self._scheduler = scheduler
        self._turn = asyncio.Lock()
        self._free = _MAX_WAITING

    async def finish(self, steps: Steps[ReplicaDigest]) -> ReplicaDigest:
        """The digest. If the caller is cancelled, reading ends, and the next one begins."""
        if not self._free:
            raise TooManyScansError("this node makes as many digests as it may: ask again in a moment")
        self._free -= 1
        try:
            async with self._turn:
                return await self._scheduler.finish(steps)
        finally:
            self._free += 1


def digest_routes(services: QueryServices) -> APIRouter:
    """The route. One digest is made at a time; it ends once nobody waits for it."""
    routes = APIRouter(tags=["stores"])
    gate = _OneByOne(services.gatherer.scheduler)

    @routes.get("/state/digest/{store}/{partition}")
    async def digest(
        store: str,
        partition: Annotated[int, Path(ge=0, le=999_999_999)],
        bucket: Annotated[
            list[Annotated[int, Query(ge=0, lt=BUCKETS)]], Query(description="Buckets to list with their entries.")
        ] = [],  # noqa: B006 (FastAPI copies it)
    ) -> DigestView:
        """The digest of the rows that this node holds of a partition; 421 if it holds none."""
        definition = services.catalog.definition(store)
        if len(bucket) > _MAX_WANTED:
            msg = f"at most {_MAX_WANTED} buckets' entries are listed at once"
            raise InvalidArgumentError(msg)
        replica = services.catalog.replica(store, partition)
        if replica is None:
            raise services.catalog.not_held(store, partition)
        digest = await gate.finish(digest_of(replica, frozenset(bucket)))
        return DigestView(
            store=store,
            partition=partition,
            topic=definition.topic,
            node=services.catalog.node,
            offset=digest.offset,
            rows=digest.rows,
            digest=to_hex(digest.digest),
            set_aside_ms=replica.set_aside_ms,
            buckets=list(map(to_hex, digest.buckets)),
            entries=entries_as_json(digest),
        )

    return routes
