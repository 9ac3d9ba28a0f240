"""Stopping the platform, whatever state it is in, until no process of it is left."""

from __future__ import annotations

from deploy.instance import Instance
from deploy.layout import RunLayout
from deploy.locking import exclusive
from deploy.orphans import end_orphans
from deploy.programs import STOP_TIMEOUT_S
from deploy.supervisor import running_supervisor, shut_down


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
        shut_down(client, timeout_s + 5)
    return end_orphans(layout.root) > 0 or client is not None
