"""Waiting for something that the test's own event loop does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def eventually_in_loop(probe: Callable[[], object], timeout_s: float = 20) -> None:
    """Lets the loop run until `probe` is true; raises TimeoutError after `timeout_s`."""
    async with asyncio.timeout(timeout_s):
        while not probe():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
