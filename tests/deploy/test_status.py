"""What `status` says about a platform that is down, and about processes that run without working."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner

from deploy import cli
from deploy.app_health import driver_problem, heartbeat_problem
from deploy.instance import Instance
from deploy.layout import RunLayout
from deploy.settings import PlatformSettings
from deploy.status import PlatformStatus, Problems, ProcessStatus, collect_status, process_status
from deploy.status_table import status_table
from deploy.supervisor_client import ProcessView
from harness.waiting import eventually
from spark_apps.registry import ON_DEMAND_APPS
from spark_apps.runtime.heartbeat import AppState, Heartbeat, write_heartbeat


def _heartbeat(state: AppState = AppState.RUNNING, pid: int = 7, error: str | None = None) -> Heartbeat:
    return Heartbeat("pos", 1, pid, state, started_at_ms=0, updated_at_ms=100_000, error=error)


@pytest.mark.parametrize(
    ("heartbeat", "now_ms", "problem"),
    [
        (_heartbeat(), 100_000, None),
        (_heartbeat(), 130_000, None),
        (_heartbeat(), 130_001, "no heartbeat for 30 s"),
        (_heartbeat(pid=6), 100_000, "starting"),
        (_heartbeat(AppState.STARTING), 100_000, "starting"),
        (_heartbeat(AppState.FAILED, error="no topic"), 100_000, "failed: no topic"),
        (
            replace(_heartbeat(AppState.FAILED, pid=6, error="no topic"), starts=4),
            100_000,
            "starting again (start 5) after it failed: no topic",
        ),
        (replace(_heartbeat(AppState.FAILED, pid=6), starts=1), 100_000, "starting again (start 2) after it failed"),
        (None, 100_000, "no heartbeat yet"),
    ],
)
def test_an_app_is_healthy_only_by_its_own_fresh_heartbeat(
    heartbeat: Heartbeat | None, now_ms: int, problem: str | None
) -> None:
    assert heartbeat_problem(heartbeat, 7, now_ms) == problem


def test_the_apps_of_one_driver_work_only_if_all_of_them_do(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    assert driver_problem(layout, "shared_driver", 7, 100_000) == "ticks: no heartbeat yet"
    for app in ON_DEMAND_APPS:
        write_heartbeat(layout.heartbeat(app), replace(_heartbeat(), app=app))
    assert driver_problem(layout, "shared_driver", 7, 100_000) is None
    write_heartbeat(layout.heartbeat("leaderboard"), replace(_heartbeat(AppState.FAILED, error="gone"), app=app))
    assert driver_problem(layout, "shared_driver", 7, 100_000) == "leaderboard: failed: gone"


def test_the_table_shows_each_app_of_one_driver_and_no_process_that_nothing_needs() -> None:
    apps = {
        app: {
            "healthy": app != "ticks",
            "heartbeat": asdict(_heartbeat()),
            "process": "shared_driver",
            "behind": 0,
            "restoring": None,
        }
        for app in ON_DEMAND_APPS
    }
    alone = apps["ticks"] | {"healthy": True, "process": "pos"}
    processes = (
        ProcessStatus("pos", "RUNNING", True, 8, 1, None, ""),
        ProcessStatus("shared_driver", "RUNNING", False, 7, 1, None, "ticks: starting"),
        ProcessStatus("ticks-next", "STOPPED", True, None, None, None, "", needed=False),
    )
    console = Console(width=120, record=True, file=StringIO())
    console.print(status_table(PlatformStatus("", "", "", (), "", apps | {"pos": alone}, processes)))
    shown = console.export_text()
    assert "  ticks" in shown
    assert shown.count("not healthy") == 1
    assert shown.count("pos") == 1
    assert "ticks-next" not in shown


@pytest.mark.parametrize(
    ("name", "state", "exit_status", "healthy"),
    [
        ("shared_driver", "STOPPED", 0, False),
        ("pos-next", "STOPPED", 0, True),
        ("ticks-next", "STOPPED", 0, True),  # `ticks` is in the shared driver
        ("pos-next", "EXITED", 0, True),
        ("pos-next", "EXITED", 78, False),
        ("pos-next", "BACKOFF", 0, False),
        ("pos", "STOPPED", 0, False),
        ("pos", "EXITED", 0, False),
    ],
)
def test_only_a_process_that_nothing_needs_may_be_down(
    tmp_path: Path, name: str, state: str, exit_status: int, healthy: bool
) -> None:
    view = ProcessView(name, state, 0, 0, exit_status, "")
    problems = Problems(Instance.of(PlatformSettings.load(run_dir=tmp_path)), frozenset({"shared_driver", "pos"}))
    assert process_status(view, problems, {}).healthy == healthy


@pytest.mark.parametrize(
    ("name", "started_s", "detail"),
    [
        ("pos", 100, "ended with exit code 78: too many partitions"),
        ("pos", 101, "ended with exit code 78: see its log"),  # that was said by the process before
        ("shared_driver", 100, "ended with exit code 78: ticks: too many partitions"),
        ("kafka", 100, "ended with exit code 78: see its log"),
    ],
)
def test_an_app_that_ended_has_its_own_reason(tmp_path: Path, name: str, started_s: int, detail: str) -> None:
    instance = Instance.of(PlatformSettings.load(run_dir=tmp_path))
    for app in ("pos", "ticks"):
        failed = replace(_heartbeat(AppState.FAILED, error="too many partitions"), app=app)
        write_heartbeat(instance.layout.heartbeat(app), failed)
    view = ProcessView(name, "EXITED", 0, started_s, 78, "")
    assert process_status(view, Problems(instance, frozenset({name})), {}).detail == detail


def test_an_app_that_this_environment_does_not_name_is_judged_by_its_heartbeat(tmp_path: Path) -> None:
    instance = Instance.of(PlatformSettings.load(run_dir=tmp_path))
    problems = Problems(instance, frozenset({"page_views", "page_views-next"}))
    running = ProcessView("page_views", "RUNNING", 7, 0, 0, "")
    assert process_status(running, problems, {}).detail == "no heartbeat yet"
    assert process_status(ProcessView("page_views-next", "STOPPED", 0, 0, 0, ""), problems, {}).healthy


def test_a_platform_that_is_down_is_not_healthy(tmp_path: Path) -> None:
    status = collect_status(Instance.of(PlatformSettings.load(run_dir=tmp_path)))
    assert not status.healthy
    assert status.processes == ()


def test_the_json_has_the_promised_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    done = CliRunner().invoke(cli.app, ["status", "--json"])
    assert done.exit_code == 3
    fields = json.loads(done.stdout)
    assert fields["kafka"] == "127.0.0.1:19092"
    assert fields["query_nodes"] == ["http://127.0.0.1:18101", "http://127.0.0.1:18102"]
    assert fields["airflow"] == "http://127.0.0.1:18080"
    assert fields["delta_root"] == str(tmp_path / "delta")
    assert fields["run_dir"] == str(tmp_path)
    assert list(fields["apps"]) == ["pos", "hadoop_export"]
    assert fields["processes"] == []


def test_one_ill_process_makes_the_platform_ill() -> None:
    def status(*healths: bool) -> PlatformStatus:
        processes = tuple(ProcessStatus("kafka", "RUNNING", health, 1, 1, None, "") for health in healths)
        return PlatformStatus("", "", "", (), "", {}, processes)

    assert status(True, True).healthy
    assert not status(True, False).healthy


def test_the_table_says_how_to_start_what_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    done = CliRunner().invoke(cli.app, ["status"])
    assert "is down: start it with" in " ".join(done.stdout.split())


def _shown(process: ProcessStatus, **app: object) -> str:
    console = Console(width=160, record=True, file=StringIO())
    told = {"process": process.name, "healthy": True, "behind": None, "restoring": None, **app}
    apps = {process.name: told}
    console.print(status_table(PlatformStatus("", "", "", (), "", apps, (process,))))
    return "\n".join(line.rstrip() for line in console.export_text().splitlines())


def test_caught_up_is_told_from_nothing_done() -> None:
    process = ProcessStatus("pos", "RUNNING", True, 7, 1, None, "")
    beat = asdict(_heartbeat())
    assert "no batch yet\n" in _shown(process, heartbeat=beat)
    assert "no batch yet, caught up\n" in _shown(process, heartbeat=beat, behind=0)
    assert "no batch yet, 12 behind\n" in _shown(process, heartbeat=beat, behind=12)
    worked = beat | {"batch_id": 4, "input_rows_total": 30}
    assert "batch 4, 30 rows, 0/s, caught up\n" in _shown(process, heartbeat=worked, behind=0)
    late = worked | {"dropped_total": 2}
    assert "batch 4, 30 rows, 0/s, caught up, 2 left out\n" in _shown(process, heartbeat=late, behind=0)
    telling = "restores 1 store partition: 40 %, 2 s left"
    assert f"no batch yet, 12 behind, {telling}\n" in _shown(process, heartbeat=beat, behind=12, restoring=telling)


def test_a_process_that_was_killed_leaves_a_trace() -> None:
    process = ProcessStatus("node-a", "RUNNING", True, 7, 1, "http://a", "", exits=2, last_exit="terminated by SIGKILL")
    assert "node-a has ended by itself 2 times, the last time: terminated by SIGKILL" in _shown(process, heartbeat=None)


def test_a_process_that_was_stopped_by_a_signal_is_frozen(tmp_path: Path) -> None:
    problems = Problems(Instance.of(PlatformSettings.load(run_dir=tmp_path)), frozenset())
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            os.kill(sleeper.pid, signal.SIGSTOP)
            eventually(lambda: psutil.Process(sleeper.pid).status() == psutil.STATUS_STOPPED, 60, "it has stopped")
            seen = process_status(ProcessView("node-b", "RUNNING", sleeper.pid, 0, 0, ""), problems, {})
        finally:
            sleeper.kill()
    assert (seen.name, seen.healthy, seen.detail) == ("node-b", False, "frozen: its process was stopped by a signal")
