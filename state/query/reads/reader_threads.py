"""Threads that read rows for requests: a bounded number, and each stops reading once nobody waits for it.

A deadline or a client that leaves ends the wait for a thread, but not the thread. So the thread checks at each row
whether anybody still waits for it. Its place becomes free only when it has ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import TypeVar

from state.errors import StateError
from state.query.answers.problems import TooManyScansError

_T = TypeVar("_T")
_MOST_THREADS = 8
_given_up: ContextVar[threading.Event | None] = ContextVar("given_up", default=None)


class GivenUpError(StateError):
    """Nobody waits for the rows being read any more."""


class ReaderThreads:
    """Runs reads in a bounded number of threads; further reads are queued. Belongs to one event loop.

    Args:
        max_reads: the most reads at the same time, running or queued; more are refused.
        threads: the most reads that run at the same time.
    """

    def __init__(self, max_reads: int, *, threads: int = _MOST_THREADS) -> None:
        self._free = max_reads
        self._threads = ThreadPoolExecutor(min(max_reads, threads), thread_name_prefix="reader")

    @property
    def free(self) -> int:
        """How many more reads would be accepted now."""
        return self._free

    async def run(self, read: Callable[[], _T]) -> _T:
        """Runs `read` and returns its result; it should take its rows through `while_wanted`.

        Raises:
            TooManyScansError: if `max_reads` reads are under way.
        """
        if self._free <= 0:
            raise TooManyScansError("this node answers as many scans as it may: ask again in a moment")
        self._free -= 1
        given_up = threading.Event()
        context = copy_context()
        context.run(_given_up.set, given_up)
        loop = asyncio.get_running_loop()
        job = self._threads.submit(context.run, read)
        job.add_done_callback(lambda _: self._ended(loop))
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            given_up.set()
            raise

    def _ended(self, loop: asyncio.AbstractEventLoop) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        self._free += 1


def while_wanted(rows: Iterator[_T]) -> Iterator[_T]:
    """The same rows, for as long as somebody waits for them.

    Raises:
        GivenUpError: at the next row, once nobody waits any more.
    """
    given_up = _given_up.get()
    return rows if given_up is None else _watched(rows, given_up)


def _watched(rows: Iterator[_T], given_up: threading.Event) -> Iterator[_T]:
    for row in rows:
        if given_up.is_set():
            raise GivenUpError("nobody waits for this read any more")
        yield row
