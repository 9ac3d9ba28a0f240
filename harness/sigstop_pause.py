"""Pausing a process of a test by SIGSTOP."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.waiting import eventually

_STOPPED_S = 60
_STILL = {"T", "Z", "X"}
"""The states of a thread that is stopped or has ended."""


@contextmanager
def sigstop_pause(pid: int) -> Iterator[None]:
    """Pauses a process while the block runs.

    A signal takes a busy machine tens of milliseconds until the last thread of a process has stopped. The block
    begins after that.
    """
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: set(_states(pid)) <= _STILL, _STOPPED_S, f"process {pid} stands still")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _states(pid: int) -> Iterator[str]:
    """The state of each thread."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            yield (thread / "stat").read_text().rpartition(")")[2].split()[0]
