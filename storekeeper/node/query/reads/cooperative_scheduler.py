"""Heavy work takes turns, so that a quick query never waits behind more than one piece of it.

A page, a stream and a scrape are made in pieces of less than half a millisecond. The event loop runs one piece, answers
the requests that have arrived, then runs the next piece of any answer. Threads would not help: a busy Python thread
holds the interpreter's lock for a millisecond, and the loop waits for that lock at each request that it reads.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from typing import TypeVar

_T = TypeVar("_T")
Steps = Generator[None, None, _T]
"""Work in pieces: it yields after each piece and returns its result."""


class CooperativeScheduler:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._scheduled = False

    async def take(self) -> None:
        """Waits for its turn: from here to the next `await`, no other piece of heavy work runs."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._next, loop)
        await turn

    async def finish(self, steps: Steps[_T]) -> _T:
        """Does work piece by piece and returns its result. If the caller is cancelled, the work ends."""
        try:
            while True:
                await self.take()
                next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result
        finally:
            steps.close()

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Gives the next turn to the longest waiting task. The one behind it waits for the loop's next iteration."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                loop.call_soon(self._next, loop)
                return
        self._scheduled = False


def finished(steps: Steps[_T]) -> _T:
    """Does all steps at once and returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result
