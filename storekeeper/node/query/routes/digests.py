"""`/state/digest/{store}/{partition}`: the digest of this node's own replica. Never forwarded."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel

from storekeeper.errors import InvalidArgumentError
from storekeeper.node.query.answers.answer import TooManyScansError
from storekeeper.node.query.reads.cooperative_scheduler import CooperativeScheduler, Steps
from storekeeper.node.query.reads.digests import ReplicaDigest, digest_of, entries_as_json
from storekeeper.node.query.routes.services import QueryServices
from storekeeper.stores.row_digest import BUCKETS, to_hex

_MAX_WANTED = 8
_MAX_WAITING = 8


class DigestView(BaseModel):
    """A replica's content at a changelog offset (exclusive). Digests are hexadecimal, as in a snapshot's manifest."""

    store: str
    partition: int
    topic: str
    node: str
    offset: int
    rows: int
    digest: str
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
        found = await gate.finish(digest_of(replica, frozenset(bucket)))
        return DigestView(
            store=store,
            partition=partition,
            topic=definition.topic,
            node=services.catalog.node,
            offset=found.offset,
            rows=found.rows,
            digest=to_hex(found.digest),
            buckets=list(map(to_hex, found.buckets)),
            entries=entries_as_json(found),
        )

    return routes
