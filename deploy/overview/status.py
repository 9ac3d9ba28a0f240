"""`storekeeper status`: every process of the platform, as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from deploy.overview.model import App, Overview, Process
from deploy.settings import PlatformSettings


def status_json(view: Overview, settings: PlatformSettings) -> dict[str, Any]:
    """The object that `--output json` prints. Fields may be added, never renamed."""
    return {
        "run_dir": str(settings.run_dir),
        "kafka": settings.kafka_bootstrap,
        "airflow": settings.airflow_url,
        "query_nodes": list(settings.node_urls.values()),
        "delta_root": str(settings.tables),
        "apps": {app.name: app.as_json() for app in view.apps},
        "processes": [asdict(process) for process in view.processes],
        "healthy": view.healthy,
    }


def status_table(view: Overview, settings: PlatformSettings) -> RenderableType:
    """One row per needed process, and where the data is."""
    if not view.processes:
        return f"The platform in {settings.run_dir} is down: start it with `storekeeper up`."
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("process", "health", "pid", "up", "address or progress"):
        # Names and addresses are there to be copied: only the words about health may wrap.
        table.add_column(heading, justify="right" if heading in {"pid", "up"} else "left", no_wrap=heading != "health")
    for process in view.processes:
        if not process.needed:
            continue
        apps = [app for app in view.apps if app.process is not None and app.process.name == process.name]
        table.add_row(*_row(process, next((app for app in apps if app.name == process.name), None)))
        for app in apps:
            if app.name != process.name:
                table.add_row(f"  {app.name}", _health(app.problem), "", "", _progress(app))
    ended = [
        f"{process.name} has ended by itself {_times(process.exits)}, the last time: {process.last_exit}"
        for process in view.processes
        if process.exits
    ]
    places = (f"run directory  {settings.run_dir}", f"Delta tables   {settings.tables}")
    return Group(table, "", *ended, *places)


def _row(process: Process, app: App | None) -> tuple[str, ...]:
    return (
        process.name,
        _health(process.detail or None),
        str(process.pid or "-"),
        _duration(process.uptime_s),
        process.address or _progress(app),
    )


def _health(problem: str | None) -> str:
    return "[green]healthy[/]" if problem is None else f"[red]{problem}[/]"


def _progress(app: App | None) -> str:
    if app is None or app.beat is None:
        return "-"
    lag = app.lag_records
    read = "" if lag is None else f", {lag} behind" if lag else ", caught up"
    restoring = f", {app.restoring}" if app.restoring else ""
    if app.beat.batch_id is None:
        return f"no batch yet{read}{restoring}"
    left_out = f", {app.beat.dropped_total} left out" if app.beat.dropped_total else ""
    done = f"batch {app.beat.batch_id}, {app.beat.input_rows_total} rows, {app.rows_per_second:.0f}/s"
    return f"{done}{read}{left_out}{restoring}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _duration(seconds: int | None) -> str:
    if seconds is None:
        return "-"
    hours, rest = divmod(max(seconds, 0), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
