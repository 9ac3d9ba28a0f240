"""Streams of whole scans over HTTP: a bounded number at a time, each within its time, each with its end marked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import structlog
from starlette.responses import StreamingResponse

from state.errors import StateError
from state.query.answers.origins import origin_headers
from state.query.answers.problems import TooManyScansError, problem_of
from state.query.reads.freshness_gate import Asked
from state.query.reads.gather import Gatherer
from state.query.reads.pages import PageLimits, Scan
from state.query.reads.scan_stream import ScanStream
from state.query.reads.stream_format import StreamEnd, StreamFormat

log = structlog.get_logger(__name__)

_ROWS_AT_A_TIME = 80
"""Rows are written in runs short enough not to hold up other requests."""


class Streams:
    """The streams of one node. Belongs to one event loop.

    Args:
        gatherer: reads the pages.
        node: this node's name.
        limits: of the page that is held per part.
        max_streams: the most streams at a time.
        longest_s: a stream that takes longer is cut off, without an end mark.
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
                    await self._gatherer.turns.take()
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
