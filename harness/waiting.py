"""Waiting for something that another process or thread does, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_PAUSE_S = 0.05
_T = TypeVar("_T")


def eventually(probe: Callable[[], _T | None], timeout_s: float, what: str) -> _T:
    """The first true result of `probe`; fails with `what` after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = probe()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {timeout_s} s in vain: {what}"
        time.sleep(_PAUSE_S)
