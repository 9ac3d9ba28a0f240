"""Waiting for what other processes do: by polling, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], timeout_s: float, poll_s: float = 0.1) -> bool:
    """Polls until `condition()` holds. Returns whether it did within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll_s)
    return True
