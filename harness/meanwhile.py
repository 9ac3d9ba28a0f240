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

    with running(run, over):
        yield


@contextmanager
def running(work: Callable[[], None], over: threading.Event) -> Iterator[None]:
    """Does some work in a thread, which ends by itself once `over` is set, as it is when the block ends.

    Raises:
        Exception: what `work` raised, when the block ends: who reads or watches must not have ended early.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="meanwhile") as threads:
        job = threads.submit(work)
        try:
            yield
        finally:
            over.set()
        job.result()
