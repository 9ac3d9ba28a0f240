"""Situations in `status` and `dashboard` at 80, 120 and 140 columns: the health of each row is always there."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console, RenderableType

from deploy.overview.model import FROZEN, Overview, Process
from deploy.overview.status import status_table
from deploy.overview.terminal import picture
from deploy.settings import PlatformSettings
from deploy.supervisor_rpc import ProcessInfo
from spark_apps.runtime.heartbeat import AppState
from tests.deploy.overview.made_up import NOW_MS, app, store

LONG = "till-team.loyalty-points-of-customers"
ENDED = (
    "ended with exit code 78: UnusableCheckpointError: topic loyalty-points-of-customers-totals-changelog was "
    "deleted since generation 1 began, and with it the app's state [see the page]"
)
HEALTHY = Process("node-a", "RUNNING", True, 1_234_567, 360_000, "http://127.0.0.1:26101", "")
BUSY = {"batch_id": 1234, "input_rows_total": 61_773_000, "input_rows_per_second": 9310.0, "dropped_total": 12}


def ill(detail: str, name: str = "node-a", state: str = "RUNNING", **others: object) -> Process:
    return replace(HEALTHY, name=name, state=state, healthy=False, detail=detail, **others)  # type: ignore[arg-type]


SITUATIONS: dict[str, Process] = {
    "all is well": HEALTHY,
    "starting": ill("starting", "pos"),
    "no heartbeat yet": ill("no heartbeat yet", "pos"),
    "frozen": ill(FROZEN),
    "killed": ill("starting again (start 3) after it failed: " + ENDED, "pos", exits=2, last_exit="SIGKILL"),
    "ended for good": ill(ENDED, LONG, "EXITED", pid=None, uptime_s=None),
    "stopped": ill("stopped", "pos", "STOPPED", pid=None, uptime_s=None),
    "silent": ill("no heartbeat for 93 s", "pos"),
    "restoring": ill("not ready: 3 of 8 replicas can't answer yet or have failed; totals-0: the disk is full"),
    "lost": ill(
        "a changelog is lost: 2 of 4 replicas: changelog totals-changelog was deleted: this node keeps the rows"
    ),
    "no answer": ill("does not answer"),
    "airflow": ill("unreachable", "airflow-dag-processor"),
    "an app of the driver": ill("ticks: failed: RuntimeError", "shared_driver"),
    "drains": ill("stopping", "pos", "STOPPING"),
    "supervisor gave up": ill("fatal", LONG, "FATAL", pid=None, uptime_s=None),
}


def shown(what: RenderableType, width: int) -> list[str]:
    console = Console(width=width, record=True, file=StringIO())
    console.print(what)
    return [line.rstrip() for line in console.export_text().splitlines()]


def seen(process: Process) -> Overview:
    runs = ProcessInfo("pos", "RUNNING", 7, 0, 0)
    busy = replace(HEALTHY, name="clicks", address=None)
    apps = [
        app("clicks", process=replace(runs, name="clicks"), **BUSY),  # type: ignore[arg-type]
        app("pos", process=runs, state=AppState.FAILED),
    ]
    return Overview(NOW_MS, [process, busy, replace(HEALTHY, name="metrics")], apps, [store(serving=4)])


@pytest.mark.parametrize("width", [80, 120, 140])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_status_shows_the_health_of_each_row_and_why(situation: str, width: int) -> None:
    process = SITUATIONS[situation]
    lines = shown(status_table(seen(process), PlatformSettings.load(), width), width)
    assert max(map(len, lines)) <= width
    table = lines[: lines.index("")]
    rows = {line.split()[0]: line for line in table}
    assert lines[0].split()[:2] == ["process", "health"]
    assert rows["clicks"].split()[1] == rows["metrics"].split()[1] == "healthy"
    said = "healthy" if process.healthy else process.detail.partition(":")[0][:20]
    assert rows[process.name].removeprefix(process.name).lstrip().startswith(said)
    assert len(table) == 4, "a row is one line"
    if not process.healthy:
        whole = " ".join(lines[lines.index("") :])
        assert " ".join(f"{process.name}: {process.detail}".split()) in " ".join(whole.split())


@pytest.mark.parametrize("width", [80, 120, 140])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_dashboard_names_what_is_ill(situation: str, width: int) -> None:
    process = SITUATIONS[situation]
    lines = shown(picture(seen(process), width), width)
    assert max(map(len, lines)) <= width
    if not process.healthy:
        assert process.name in "".join(lines)
