"""Whether a stream app works, according to its heartbeat."""

from __future__ import annotations

from deploy.layout import RunLayout
from spark_apps.registry import apps_of
from spark_apps.runtime.heartbeat import AppState, Heartbeat, read_heartbeat

HEARTBEAT_STALE_MS = 30_000


def heartbeat_problem(heartbeat: Heartbeat | None, pid: int, now_ms: int) -> str | None:
    """The problem of an app that runs as `pid`, according to its heartbeat; None if it is healthy."""
    if heartbeat is None:
        return "no heartbeat yet"
    if heartbeat.pid != pid:
        return _starting(heartbeat)
    if heartbeat.state is not AppState.RUNNING:
        return str(heartbeat.state).lower() + (f": {heartbeat.error}" if heartbeat.error else "")
    age_ms = heartbeat.age_ms(now_ms)
    return f"no heartbeat for {age_ms // 1000} s" if age_ms > HEARTBEAT_STALE_MS else None


def _starting(before: Heartbeat) -> str:
    """The problem of an app without a heartbeat yet, with the last start's error: it may fail again and again."""
    if before.state is not AppState.FAILED:
        return "starting"
    return f"starting again (start {before.starts + 1}) after it failed" + (f": {before.error}" if before.error else "")


def restoring(beat: Heartbeat) -> str | None:
    """What a running app's tasks are restoring, with percent and seconds left; None if they restore nothing."""
    if beat.state is not AppState.RUNNING or not beat.restoring:
        return None
    total = sum(one["total"] for one in beat.restoring)
    partitions = "1 store partition" if len(beat.restoring) == 1 else f"{len(beat.restoring)} store partitions"
    percent = 100 * (total - beat.restore_remaining) // max(total, 1)
    return f"restores {partitions}: {percent} %, {max(one['eta_s'] for one in beat.restoring):.0f} s left"


def why_ended(layout: RunLayout, program: str, since_s: int) -> str | None:
    """The error in an app's heartbeat from before its process ended; None if there is none.

    Args:
        layout: The run directory.
        program: The process: an app's, or the shared driver.
        since_s: When the process was started. Heartbeats of earlier processes don't count.
    """
    for app in apps_of(program):
        beat = read_heartbeat(layout.heartbeat(app))
        if beat is not None and beat.state is AppState.FAILED and beat.error and beat.updated_at_ms >= since_s * 1000:
            return _of(app, program, beat.error)
    return None


def driver_problem(layout: RunLayout, program: str, pid: int, now_ms: int) -> str | None:
    """The problem of a driver that runs as `pid`: that of its first app that has one; None if all are healthy."""
    for app in apps_of(program):
        problem = heartbeat_problem(read_heartbeat(layout.heartbeat(app)), pid, now_ms)
        if problem is not None:
            return _of(app, program, problem)
    return None


def _of(app: str, program: str, problem: str) -> str:
    return problem if app == program else f"{app}: {problem}"
