"""Scans over all partitions of a store, page by page: each partition is asked at a holder, the rows merged in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from state.query.answers.origin import Origin
from state.query.reads.gather import Asked, Gathered, Gatherer, complete
from state.query.reads.page_wire import decode_page, scan_query
from state.query.reads.pages import Page, PageLimits, Scan, merge_pages, read_page
from state.query.reads.turns import Steps
from state.replicas.replica import Replica

INTERNAL_PATH = "/internal/scan/"


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """The first page of a scan."""

    scan: Scan
    limits: PageLimits

    @property
    def store(self) -> str:
        """The store."""
        return self.scan.store

    def path(self) -> str:
        """As the internal scan route reads it."""
        return f"{INTERNAL_PATH}{self.store}?{scan_query(self.scan, self.limits)}"

    def local(self, replicas: Sequence[Replica]) -> Steps[Page]:
        """Reads it."""
        return read_page(replicas, self.scan, self.limits)

    def decode(self, body: bytes) -> tuple[Page, list[Origin]]:
        """Reads another node's page."""
        return decode_page(body)


@dataclass(frozen=True, slots=True)
class ScanPage:
    """A page, where it comes from, and the partitions that are missing from it; none if it is complete."""

    page: Page
    origins: Sequence[Origin]
    missing: tuple[int, ...]


class ScanQueries:
    """Answers scans. Belongs to one event loop."""

    def __init__(self, gatherer: Gatherer) -> None:
        self.gatherer = gatherer

    async def page(
        self, scan: Scan, limits: PageLimits, asked: Asked, partitions: Iterable[int] | None = None
    ) -> ScanPage:
        """The first rows of a scan from all partitions or some, wherever they are.

        Raises:
            StoreUnavailableError: if a partition is missing and must not be.
            UnknownStoreError: if there is no such store.
            StoreRestoringError: if the node doesn't know the store's partitions yet.
            TooManyScansError: if too many scans are under way.
        """
        self.gatherer.check_free()
        found: Gathered[Page] = await self.gatherer.gather(PageQuestion(scan, limits), asked, partitions)
        complete(scan.store, found, asked)
        pages = [answer.found for answer in found.answers]
        await self.gatherer.turns.take()
        return ScanPage(merge_pages(pages, limits, reverse=scan.reverse), found.origins, found.missing)
