"""`storekeeper status`: every process of the platform, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from storekeeper.ops.overview.model import App, Overview, Process
from storekeeper.ops.settings import PlatformSettings


def status_json(view: Overview, settings: PlatformSettings) -> dict[str, Any]:
    """The object that `--output json` prints. Fields may be added, never renamed."""
    return {
        "run_dir": str(settings.run_dir),
        "kafka": settings.kafka_bootstrap,
        "airflow": settings.airflow_url or None,
        "query_nodes": list(settings.node_urls.values()),
        "delta_root": str(settings.tables),
        "apps": {app.name: app.as_json() for app in view.apps},
        "processes": [asdict(process) for process in view.processes],
        "healthy": view.healthy,
    }


_HEADINGS = ("process", "health", "pid", "up", "address or progress")
_GAP = 2
_LEAST_LAST = 12
"""A narrower last column says nothing: it is left out."""
_LONGEST_HEALTH = 24


def status_table(view: Overview, settings: PlatformSettings, width: int = 120) -> RenderableType:
    """One row per needed process, why some are ill, and where the data is.

    A narrow terminal cuts addresses and progress, never the health of a row.
    """
    if not view.processes:
        return f"The platform in {settings.run_dir} is down: start it with `storekeeper up`."
    rows: list[tuple[str, ...]] = []
    why: list[Text] = []
    for process in view.processes:
        if not process.needed:
            why += [Text(f"{process.name}: {process.detail}")] if process.detail else []
            continue
        apps = [app for app in view.apps if app.process is not None and app.process.name == process.name]
        rows.append(_row(process, next((app for app in apps if app.name == process.name), None)))
        rows += [
            (f"  {app.name}", _health(app.problem), "", "", _progress(app)) for app in apps if app.name != process.name
        ]
        if process.detail:
            why.append(Text(f"{process.name}: {process.detail}", style="red"))
    ended = [
        Text(f"{process.name} has ended by itself {_times(process.exits)}, the last time: {process.last_exit}")
        for process in view.processes
        if process.exits
    ]
    places = (Text(f"run directory  {settings.run_dir}"), Text(f"Delta tables   {settings.tables}"))
    return Group(_fitted(rows, width), Text(), *why, *ended, *places)


def _fitted(rows: Sequence[Sequence[str]], width: int) -> Table:
    """The rows as a table of at most `width` columns of text: its last column is cut or left out, then those before."""
    needed = [max(len(heading), *(len(row[at]) for row in rows)) for at, heading in enumerate(_HEADINGS)]
    last = len(needed) - 1
    while last > 1 and width - sum(needed[:last]) - _GAP * last < min(_LEAST_LAST, needed[last]):
        last -= 1
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for at, heading in enumerate(_HEADINGS[: last + 1]):
        room = width - sum(needed[:last]) - _GAP * last if at == last else needed[at]
        justify: Literal["left", "right"] = "right" if heading in {"pid", "up"} else "left"
        table.add_column(heading, justify=justify, no_wrap=True, overflow="ellipsis", width=min(room, needed[at]))
    for row in rows:
        style = "green" if row[1] == _HEALTHY else "red"
        table.add_row(*(Text(words, style=style if at == 1 else "") for at, words in enumerate(row[: last + 1])))
    return table


_HEALTHY = "healthy"


def _row(process: Process, app: App | None) -> tuple[str, ...]:
    return (
        process.name,
        _health(process.detail or None),
        str(process.pid or "-"),
        _duration(process.uptime_s),
        process.address or _progress(app),
    )


def _health(problem: str | None) -> str:
    """A problem in a few words; a line below the table has all of it."""
    if problem is None:
        return _HEALTHY
    words = problem.partition(":")[0]
    return words if len(words) <= _LONGEST_HEALTH else f"{words[: _LONGEST_HEALTH - 1]}…"


def _progress(app: App | None) -> str:
    """What an app has done; first what to act on, as a narrow terminal cuts the end."""
    if app is None or app.beat is None:
        return "-"
    beat, lag = app.beat, app.lag_records
    done = "no batch yet"
    if beat.batch_id is not None:
        done = f"batch {beat.batch_id}, {beat.input_rows_total} read, {app.rows_per_second:.0f}/s"
    parts = (
        "" if lag is None else f"{lag} behind" if lag else "caught up",
        f"{beat.dead_letters_total} dead letters" if beat.dead_letters_total else "",
        f"{beat.dropped_total} left out" if beat.dropped_total else "",
        app.restoring or "",
        done,
    )
    return ", ".join(filter(None, parts))


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _duration(seconds: int | None) -> str:
    if seconds is None:
        return "-"
    hours, rest = divmod(max(seconds, 0), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
