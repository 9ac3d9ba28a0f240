"""Whether a stream app works, by what it says of itself."""

from __future__ import annotations

from deploy.layout import RunLayout
from spark_apps.heartbeat import AppState, Heartbeat, read_heartbeat
from spark_apps.sharing import sharing_apps

HEARTBEAT_STALE_MS = 30_000


def heartbeat_problem(heartbeat: Heartbeat | None, pid: int, now_ms: int) -> str | None:
    """Why an app that runs as `pid` is not known to work, or None when its heartbeat says that it does."""
    if heartbeat is None:
        return "no heartbeat yet"
    if heartbeat.pid != pid:
        return _starting(heartbeat)
    if heartbeat.state is not AppState.RUNNING:
        return str(heartbeat.state).lower() + (f": {heartbeat.error}" if heartbeat.error else "")
    age_ms = heartbeat.age_ms(now_ms)
    return f"no heartbeat for {age_ms // 1000} s" if age_ms > HEARTBEAT_STALE_MS else None


def _starting(before: Heartbeat) -> str:
    """An app whose last start failed is told apart from one that just takes its time: it may fail again and again."""
    if before.state is not AppState.FAILED:
        return "starting"
    return f"starting again (start {before.starts + 1}) after it failed" + (f": {before.error}" if before.error else "")


def together_problem(layout: RunLayout, pid: int, now_ms: int) -> str | None:
    """The same for the process that on-demand apps share: the problem of the first one that has one."""
    for app in sharing_apps(layout.root):
        problem = heartbeat_problem(read_heartbeat(layout.heartbeat(app)), pid, now_ms)
        if problem is not None:
            return f"{app}: {problem}"
    return None
