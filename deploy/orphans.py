"""Processes that outlived their platform: found by the mark in their environment, ended with TERM, then KILL."""

from __future__ import annotations

import logging
from pathlib import Path

import psutil

from deploy.environment import PLATFORM_MARKER

_log = logging.getLogger(__name__)


def find_orphans(run_dir: Path) -> list[psutil.Process]:
    """Every live process that the platform of `run_dir` started, except this one and its ancestors.

    Processes whose environment can't be read (another user's) are not ours and left out.
    """
    spared = {psutil.Process().pid, *(parent.pid for parent in psutil.Process().parents())}
    return [process for process in psutil.process_iter() if process.pid not in spared and _is_marked(process, run_dir)]


def end_orphans(run_dir: Path, grace_s: float = 10.0) -> int:
    """Ends every process that the platform of `run_dir` started. Returns how many there were.

    Looks again until none is left, since a process may start another one while it is being ended.
    """
    ended = 0
    for _ in range(5):
        found = find_orphans(run_dir)
        if not found:
            break
        ended += len(found)
        _end(found, grace_s)
    return ended


def _is_marked(process: psutil.Process, run_dir: Path) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return process.environ().get(PLATFORM_MARKER) == str(run_dir)
    except (psutil.Error, OSError):
        return False


def _end(processes: list[psutil.Process], grace_s: float) -> None:
    for process in processes:
        _log.debug("ending a leftover process: %s", process.pid)
        _send(process, kill=False)
    for process in psutil.wait_procs(processes, timeout=grace_s)[1]:
        _send(process, kill=True)
    psutil.wait_procs(processes, timeout=grace_s)


def _send(process: psutil.Process, *, kill: bool) -> None:
    # psutil compares the start time first, so that a reused process id is not hit.
    try:
        if kill:
            process.kill()
        else:
            process.terminate()
    except psutil.Error:
        return
