"""Stopping the platform, whatever state it is in, until no process of it is left."""

from __future__ import annotations

import logging
from pathlib import Path

import psutil

from deploy.environment import PLATFORM_MARKER
from deploy.instance import Instance
from deploy.layout import RunLayout
from deploy.operations import exclusive
from deploy.programs import STOP_TIMEOUT_S
from deploy.supervisor import running_supervisor, shut_down

_log = logging.getLogger(__name__)


def down(instance: Instance) -> bool:
    """Stops the platform of a run directory and what a killed demo in it may have left. Safe to repeat.

    Returns whether anything was running.

    Raises:
        AlreadyRunningError: another `up`, `down` or `demo` is at work there.
    """
    layout, timeout_s = instance.layout, STOP_TIMEOUT_S
    with exclusive(layout.lock, "down"):
        stopped = stop_everything(layout, timeout_s)
        return stop_everything(RunLayout(layout.demo), timeout_s) or stopped


def stop_everything(layout: RunLayout, timeout_s: float) -> bool:
    """Stops what runs in a run directory; the caller holds its lock. Returns whether anything did."""
    client = running_supervisor(layout)
    if client is not None:
        shut_down(client, layout, timeout_s + 5)
    stopped = end_orphans(layout.root) > 0 or client is not None
    layout.started_with.unlink(missing_ok=True)
    return stopped


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
