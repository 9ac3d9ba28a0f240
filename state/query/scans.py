"""Scans over all partitions of a store: every partition is asked at one of its holders, the rows are merged by key."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable
from dataclasses import dataclass

import orjson
import structlog

from state.errors import InvalidStateStoreError, StoreMigratedError, StoreRestoringError, StoreUnavailableError
from state.query.answer import Answer
from state.query.catalog import Catalog
from state.query.json_rows import decode_base64url
from state.query.pages import KeyRange, Page, PageLimits, merge_pages, read_page
from state.query.problems import TooManyScansError
from state.query.router import Router
from state.replicas.replica import Replica

log = structlog.get_logger(__name__)

INTERNAL_PATH = "/internal/scan/"


@dataclass(frozen=True, slots=True)
class ScanPage:
    """A page and the partitions that are missing from it; none if it is complete."""

    page: Page
    missing: tuple[int, ...]


class ScanQueries:
    """Answers scans, a bounded number at a time. Belongs to one event loop; the reading itself is done in threads."""

    def __init__(self, catalog: Catalog, router: Router, *, max_scans: int) -> None:
        self._catalog = catalog
        self._router = router
        self._free = max_scans

    async def page(self, store: str, keys: KeyRange, limits: PageLimits) -> ScanPage:
        """The first rows of a range from all partitions, wherever they are.

        Raises:
            UnknownStoreError: if there is no such store.
            StoreRestoringError: if the node doesn't know the store's partitions yet.
            TooManyScansError: if too many scans are under way.
        """
        wanted = list(range(self._catalog.partitions(store)))
        mine = [partition for partition in wanted if self._serving(store, partition) is not None]
        pages: list[Page] = []
        left = set(wanted)
        if mine:
            try:
                pages.append(await self.local_page(store, mine, keys, limits))
                left -= set(mine)
            except InvalidStateStoreError as error:
                log.warning("local_scan_failed", store=store, error=str(error))
        if left:
            pages += await self._remote_pages(store, left, keys, limits)
        return ScanPage(merge_pages(pages, limits), tuple(sorted(left)))

    async def local_page(self, store: str, partitions: Iterable[int], keys: KeyRange, limits: PageLimits) -> Page:
        """The same from partitions of this node only.

        Raises:
            StoreMigratedError: if this node doesn't hold one of them.
            StoreRestoringError: if one has not caught up.
            TooManyScansError: if too many scans are under way.
        """
        replicas = [self._held(store, partition) for partition in partitions]
        if self._free <= 0:
            raise TooManyScansError("this node answers as many scans as it may: ask again in a moment")
        self._free -= 1
        try:
            return await asyncio.to_thread(read_page, replicas, keys, limits)
        finally:
            self._free += 1

    def _serving(self, store: str, partition: int) -> Replica | None:
        replica = self._catalog.replica(store, partition)
        return replica if replica is not None and replica.serving else None

    def _held(self, store: str, partition: int) -> Replica:
        replica = self._catalog.replica(store, partition)
        if replica is None:
            msg = f"node {self._catalog.node} does not hold partition {partition} of {store}"
            raise StoreMigratedError(msg)
        if not replica.serving:
            msg = f"partition {partition} of {store} has not caught up on node {self._catalog.node}"
            raise StoreRestoringError(msg)
        return replica

    async def _remote_pages(self, store: str, left: set[int], keys: KeyRange, limits: PageLimits) -> list[Page]:
        """Asks other holders for the partitions in `left`, and takes out those that were answered."""
        found = await self._router.scatter(
            store, left, lambda numbers: f"{INTERNAL_PATH}{store}?{scan_query(numbers, keys, limits)}"
        )
        left.intersection_update(found.missing)
        return [decode_page(part.answer) for part in found.parts]


def complete(store: str, found: ScanPage) -> Page:
    """The page of a scan that must not miss a partition.

    Raises:
        StoreUnavailableError: if it does.
    """
    if found.missing:
        missing = ", ".join(map(str, found.missing))
        msg = f"no replica of partition {missing} of {store} can answer now: ask again, or with partial=ok"
        raise StoreUnavailableError(msg)
    return found.page


def scan_query(partitions: Iterable[int], keys: KeyRange, limits: PageLimits) -> str:
    """The query string of a scan between nodes."""
    parts = [f"partitions={','.join(map(str, partitions))}", f"rows={limits.rows}", f"bytes={limits.max_bytes}"]
    for name, bound in (("lower", keys.lower), ("upper", keys.upper)):
        if bound is not None:
            parts.append(f"{name}={_text(bound)}")
    return "&".join(parts)


def encode_page(page: Page) -> bytes:
    """A page as it travels between nodes."""
    return orjson.dumps({"rows": [[_text(key), _text(value)] for key, value in page.rows], "more": page.more})


def decode_page(answer: Answer) -> Page:
    """Reads what `encode_page` wrote."""
    fields = orjson.loads(answer.body)
    rows = [(decode_base64url(key, "a key"), decode_base64url(value, "a value")) for key, value in fields["rows"]]
    return Page(rows, more=bool(fields["more"]))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()
