"""Pausing a process of a test by SIGSTOP."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def sigstop_pause(child: int) -> Iterator[None]:
    """Pauses a child of this process while the block runs.

    A signal takes a busy machine tens of milliseconds until the last thread of a process has stopped. The block
    begins after that.

    Args:
        child: its process id.
    """
    os.kill(child, signal.SIGSTOP)
    try:
        os.waitid(os.P_PID, child, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        yield
    finally:
        os.kill(child, signal.SIGCONT)
