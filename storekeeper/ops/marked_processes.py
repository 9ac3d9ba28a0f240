"""Processes that are known by a variable which they were started with, and how they are ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

import psutil

_ATTEMPTS = 50
"""Counted, not timed: a busy machine may keep this process waiting for longer than any pause."""
_PAUSE_S = 0.002


def mark_of(process: psutil.Process, name: str) -> str | None:
    """The value of variable `name` that a process was started with. None if it has no such variable, has ended, or is
    another user's.
    """
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return _environment(process).get(name)
    except (psutil.Error, OSError):
        return None


def _environment(process: psutil.Process) -> dict[str, str]:
    # While a process replaces its program, Linux shows no variables of it for a moment. A thread of the kernel never
    # has any, and no file of a program either.
    for _ in range(_ATTEMPTS):
        environment: dict[str, str] = process.environ()
        if environment or not process.exe():
            return environment
        time.sleep(_PAUSE_S)
    return {}


def end_processes(processes: Sequence[psutil.Process], grace_s: float = 10.0) -> None:
    """Ends processes by TERM, and by KILL those that live on after `grace_s`."""
    # psutil compares the start time first, so that a reused process id is not hit.
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    for process in psutil.wait_procs(processes, timeout=grace_s)[1]:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(processes, timeout=grace_s)
