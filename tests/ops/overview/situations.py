"""Situations of a process, as every view has to show them."""

from __future__ import annotations

from dataclasses import replace

from storekeeper.engine.runtime.heartbeat import AppState
from storekeeper.ops.overview.model import FROZEN, Overview, Process
from storekeeper.ops.supervisor_rpc import ProcessInfo
from tests.ops.overview.made_up import NOW_MS, app, store

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


def seen(process: Process) -> Overview:
    runs = ProcessInfo("pos", "RUNNING", 7, 0, 0)
    busy = replace(HEALTHY, name="clicks", address=None)
    apps = [
        app("clicks", process=replace(runs, name="clicks"), **BUSY),  # type: ignore[arg-type]
        app("pos", process=runs, state=AppState.FAILED),
    ]
    return Overview(NOW_MS, [process, busy, replace(HEALTHY, name="metrics")], apps, [store(serving=4)])
