"""Streams of whole scans over HTTP: a bounded number at a time, each within its time, each with its end marked.

Runs of rows from all partitions are merged in order, in bounded memory. Each part of the store - the partitions that
one node answers for - is read page by page, and only as fast as rows are taken: at most one page per part is held. If a
part's node dies, reading goes on at another holder behind its last row. Every row is as of some moment during the
stream. No key comes twice, and no key that exists throughout is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import structlog
from starlette.responses import StreamingResponse

from storekeeper.errors import StateError
from storekeeper.node.query.answers.answer import TooManyScansError, problem_of
from storekeeper.node.query.answers.origins import Origin, origin_headers
from storekeeper.node.query.reads.freshness_gate import Asked
from storekeeper.node.query.reads.gather import Gatherer, complete
from storekeeper.node.query.reads.pages import PageLimits, PageQuery, Row, Scan, by_key, horizon_of
from storekeeper.node.query.reads.stream_format import StreamEnd, StreamFormat

log = structlog.get_logger(__name__)

_ROWS_AT_A_TIME = 80
"""Rows are written in runs short enough not to hold up other requests."""


class Streams:
    """The streams of one node. Belongs to one event loop.

    `limits` are those of the page that is held per part. A stream that takes longer than `longest_s` is cut off,
    without an end mark.
    """

    def __init__(
        self, gatherer: Gatherer, node: str, limits: PageLimits, *, max_streams: int, longest_s: float
    ) -> None:
        self._gatherer = gatherer
        self._node = node
        self._limits = limits
        self._max_streams = max_streams
        self.longest_s = longest_s
        self.open = 0

    async def answer(
        self, scan: Scan, asked: Asked, form: StreamFormat, partitions: Sequence[int] | None = None
    ) -> StreamingResponse:
        """Begins a stream. If it can't begin, that is an error as for any other answer.

        Raises:
            TooManyScansError: if too many streams are open.
            StoreUnavailableError: if a partition is missing and must not be.
        """
        if self.open >= self._max_streams:
            msg = f"this node has {self.open} streams open, as many as it may: ask again when one has ended"
            raise TooManyScansError(msg)
        self.open += 1
        try:
            stream = ScanStream(self._gatherer, scan, self._limits, asked, partitions)
            await stream.start()
        except BaseException:
            self.open -= 1
            raise
        headers = origin_headers(self._node, stream.origins, sorted(stream.missing))
        # Only at its end is it known whether the stream is complete.
        del headers["storekeeper-complete"]
        return _StreamResponse(self, self._bytes(stream, form), headers=headers, media_type=form.media_type)

    async def _bytes(self, stream: ScanStream, form: StreamFormat) -> AsyncIterator[bytes]:
        rows = 0
        problem = None
        try:
            async for run in stream.runs():
                for at in range(0, len(run), _ROWS_AT_A_TIME):
                    part = run[at : at + _ROWS_AT_A_TIME]
                    await self._gatherer.scheduler.take()
                    yield form.rows(part)
                    rows += len(part)
        except StateError as error:
            log.warning("stream_ended_early", rows=rows, error=str(error))
            problem = problem_of(error)
        yield form.end(StreamEnd(rows, sorted(stream.missing), problem))


class _StreamResponse(StreamingResponse):
    """Frees its place when it ends, also when the client leaves or is too slow."""

    def __init__(self, streams: Streams, content: AsyncIterator[bytes], **options: Any) -> None:
        super().__init__(content, **options)
        self._streams = streams

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            async with asyncio.timeout(self._streams.longest_s):
                await super().__call__(scope, receive, send)
        except TimeoutError:
            # Re-raised, it breaks the connection: the client gets neither the end mark nor the last chunk.
            log.warning("stream_took_too_long", seconds=self._streams.longest_s)
            raise
        finally:
            self._streams.open -= 1


_PAUSES_S = (0.1, 0.3, 0.6, 1.0, 2.0)
"""Pauses before a part without an answer is asked again: another node takes over within seconds, or not at all."""


@dataclass(slots=True)
class _Part:
    """Partitions that are read together: rows not yet taken, and the last key read; `reached` None: read to the end."""

    partitions: tuple[int, ...]
    rows: list[Row]
    reached: bytes | None
    origins: Sequence[Origin] = field(default_factory=tuple)


class ScanStream:
    """One scan, read once. `start` reads the first page of each part; then `runs` gives the rows.

    Attributes:
        origins: where the first rows come from.
        missing: partitions of which rows may be missing, if the caller allows that.
    """

    def __init__(
        self,
        gatherer: Gatherer,
        scan: Scan,
        limits: PageLimits,
        asked: Asked,
        partitions: Sequence[int] | None = None,
    ) -> None:
        self._gatherer = gatherer
        self._scan = scan
        self._limits = limits
        self._asked = asked
        self._partitions = partitions
        self._parts: list[_Part] = []
        self.origins: list[Origin] = []
        self.missing: set[int] = set()

    async def start(self) -> None:
        """Reads the first pages.

        Raises:
            StoreUnavailableError: if a partition is missing and must not be.
            UnknownStoreError, StoreRestoringError, TooManyScansError: as a page of the scan does.
        """
        self._parts = await self._read(self._scan, self._partitions, pauses_s=())
        self.origins = [origin for part in self._parts for origin in part.origins]

    async def runs(self) -> AsyncIterator[Sequence[Row]]:
        """The rows in order, several at a time. Raises as `start` does if a part can't be read further."""
        while self._parts:
            await self._gatherer.scheduler.take()
            if run := self._take():
                yield run
            self._parts = [part for part in self._parts if part.rows or part.reached is not None]
            due = [part for part in self._parts if not part.rows]
            if due:
                read = await asyncio.gather(*(self._read_on(part) for part in due))
                self._parts = [part for part in self._parts if part.rows] + list(chain.from_iterable(read))

    def _take(self) -> list[Row]:
        """Takes the rows that certainly come before all rows not yet read."""
        reverse = self._scan.reverse
        horizon = horizon_of((part.reached for part in self._parts), reverse=reverse)
        run: list[Row] = []
        for part in self._parts:
            rows = part.rows if horizon is None else _up_to(part.rows, horizon, reverse=reverse)
            part.rows = part.rows[len(rows) :]
            run += rows
        run.sort(key=by_key, reverse=reverse)
        return run

    async def _read_on(self, part: _Part) -> list[_Part]:
        if part.reached is None:
            return []
        return await self._read(self._scan.beyond(part.reached), part.partitions, pauses_s=_PAUSES_S)

    async def _read(self, scan: Scan, partitions: Sequence[int] | None, *, pauses_s: Sequence[float]) -> list[_Part]:
        query = PageQuery(scan, self._limits)
        asked = self._gatherer.asked(self._asked.requirement)
        gathered = await self._gatherer.gather(query, asked, partitions)
        answers, lost = list(gathered.answers), set(gathered.lost)
        for pause_s in pauses_s:
            if not gathered.missing:
                break
            await asyncio.sleep(pause_s)
            gathered = await self._gatherer.gather(
                query, self._gatherer.asked(self._asked.requirement), gathered.missing
            )
            answers += gathered.answers
            lost |= set(gathered.lost)
        gathered = replace(gathered, answers=tuple(answers), lost=tuple(sorted(lost)))
        complete(scan.store, gathered, self._asked)
        self.missing.update(gathered.lacking)
        return [
            _Part(answer.partitions, list(answer.content.rows), answer.content.reached, answer.origins)
            for answer in gathered.answers
        ]


def _up_to(rows: list[Row], horizon: bytes, *, reverse: bool) -> list[Row]:
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high) // 2
        key = rows[middle][0]
        if key == horizon or (key > horizon) is reverse:
            low = middle + 1
        else:
            high = middle
    return rows[:low]
