"""Something that goes on beside a test's block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def repeating(step: Callable[[], None], every_s: float) -> Iterator[None]:
    """Calls `step` over and over in a thread, with a pause between, until the block ends.

    Raises:
        Exception: what `step` raised, when the block ends: a watch that had ended early would have seen nothing.
    """
    over = threading.Event()

    def run() -> None:
        while not over.wait(every_s):
            step()

    with ThreadPoolExecutor(1, thread_name_prefix="repeating") as threads:
        job = threads.submit(run)
        try:
            yield
        finally:
            over.set()
        job.result()
