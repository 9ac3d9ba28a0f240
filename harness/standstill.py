"""Processes of a test that stand still for a while."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def standing_still(child: int) -> Iterator[None]:
    """A child of this process does nothing while the block runs, and goes on afterwards.

    A signal takes a busy machine tens of milliseconds until the last thread of a process heeds it. The block begins
    after that.

    Args:
        child: its process id.
    """
    os.kill(child, signal.SIGSTOP)
    try:
        os.waitid(os.P_PID, child, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        yield
    finally:
        os.kill(child, signal.SIGCONT)
