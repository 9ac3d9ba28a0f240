"""`storekeeper status` as a table for people."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from deploy.status import PlatformStatus, ProcessStatus


def status_table(status: PlatformStatus) -> RenderableType:
    """One row per needed process, and where the data is."""
    if not status.processes:
        return f"The platform in {status.run_dir} is down: start it with `storekeeper up`."
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("process", "health", "pid", "up", "address or progress"):
        # Names and addresses are there to be copied: only the words about health may wrap.
        table.add_column(heading, justify="right" if heading in {"pid", "up"} else "left", no_wrap=heading != "health")
    for process in status.processes:
        if not process.needed:
            continue
        table.add_row(*_row(process, status.apps.get(process.name)))
        for name, app in status.apps.items():
            if app["process"] == process.name != name:
                table.add_row(f"  {name}", _app_health(app), "", "", _progress(app))
    ended = [
        f"{process.name} has ended by itself {_times(process.exits)}, the last time: {process.last_exit}"
        for process in status.processes
        if process.exits
    ]
    return Group(table, "", *ended, f"run directory  {status.run_dir}", f"Delta tables   {status.delta_root}")


def _row(process: ProcessStatus, app: dict[str, Any] | None) -> tuple[str, ...]:
    health = "[green]healthy[/]" if process.healthy else f"[red]{process.detail}[/]"
    return (
        process.name,
        health,
        str(process.pid or "-"),
        _duration(process.uptime_s),
        process.address or _progress(app),
    )


def _app_health(app: dict[str, Any]) -> str:
    return "[green]healthy[/]" if app["healthy"] else "[red]not healthy[/]"


def _progress(app: dict[str, Any] | None) -> str:
    heartbeat = (app or {}).get("heartbeat")
    if app is None or not heartbeat:
        return "-"
    lag = "" if app["behind"] is None else f", {app['behind']} behind" if app["behind"] else ", caught up"
    restoring = f", {app['restoring']}" if app["restoring"] else ""
    if heartbeat["batch_id"] is None:
        return f"no batch yet{lag}{restoring}"
    rows, rate, dropped = (heartbeat[name] for name in ("input_rows_total", "input_rows_per_second", "dropped_total"))
    left_out = f", {dropped} left out" if dropped else ""
    return f"batch {heartbeat['batch_id']}, {rows} rows, {rate:.0f}/s{lag}{left_out}{restoring}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _duration(seconds: int | None) -> str:
    if seconds is None:
        return "-"
    hours, rest = divmod(max(seconds, 0), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
