"""What `status` says about a platform that is down, and about processes that run without working."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner

from harness.ports import free_ports
from harness.project_apps import SYSTEM_APPS, TILL_APPS
from harness.waiting import eventually
from storekeeper.cli import entry
from storekeeper.client.credentials import Credentials
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat
from storekeeper.ops.overview.collect import collect_status
from storekeeper.ops.overview.model import App, Overview, Process
from storekeeper.ops.overview.processes import Probes, app_processes, node_problem, processes_of
from storekeeper.ops.overview.status import status_table
from storekeeper.ops.platform_apps import PlatformApps
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor_rpc import ProcessInfo
from tests.client.fake_node import fake_node
from tests.ops.overview.made_up import BEAT, NOW_MS, app

DRIVER = ProcessInfo("shared_driver", "RUNNING", 7, NOW_MS - 90_000, 0)


def processes(infos: Sequence[ProcessInfo], beats: Sequence[Heartbeat] = ()) -> dict[str, Process]:
    """The processes by name, with the apps that belong to them."""
    settings = PlatformSettings.load()
    by_name = {beat.app: beat for beat in beats}
    known = PlatformApps.configured()
    found = app_processes(infos, settings, known)
    apps = [App(name, NOW_MS, by_name.get(name), info) for name, info in found.items()]
    return {one.name: one for one in processes_of(infos, apps, {}, settings, known, now_ms=NOW_MS, probes=None)}


def test_the_apps_of_one_driver_work_only_if_all_of_them_do() -> None:
    assert processes([DRIVER])["shared_driver"].detail == "ticks: no heartbeat yet"
    beats = [replace(BEAT, app=name) for name in SYSTEM_APPS]
    assert processes([DRIVER], beats)["shared_driver"].healthy
    failed = [*beats, replace(BEAT, app="leaderboard", state=AppState.FAILED, error="gone")]
    assert processes([DRIVER], failed)["shared_driver"].detail == "leaderboard: failed: gone"


def test_the_table_shows_each_app_of_one_driver_and_no_process_that_nothing_needs() -> None:
    apps = [
        *(app(name, process=DRIVER) for name in SYSTEM_APPS if name != "ticks"),
        app("ticks", process=DRIVER, state=AppState.STARTING),
        app("pos", process=ProcessInfo("pos", "RUNNING", 7, 0, 0)),
    ]
    shown = _table(
        Process("pos", "RUNNING", True, 7, 1, None, ""),
        Process("shared_driver", "RUNNING", False, 7, 1, None, "ticks: starting"),
        Process("ticks-next", "STOPPED", True, None, None, None, "", needed=False),
        apps=apps,
    )
    (ticks,) = [line for line in shown.splitlines() if line.startswith("  ticks")]
    assert "starting" in ticks
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
def test_only_a_process_that_nothing_needs_may_be_down(name: str, state: str, exit_status: int, healthy: bool) -> None:
    others = [ProcessInfo(other, "RUNNING", 7, 0, 0) for other in ("shared_driver", "pos") if other != name]
    assert processes([ProcessInfo(name, state, 0, 0, exit_status), *others])[name].healthy == healthy


@pytest.mark.parametrize(
    ("name", "started_ms", "detail"),
    [
        ("pos", NOW_MS - 1000, "ended with exit code 78: too many partitions"),
        ("pos", NOW_MS, "ended with exit code 78: see its log"),  # that was said by the process before
        ("shared_driver", NOW_MS - 1000, "ended with exit code 78: ticks: too many partitions"),
        ("kafka", NOW_MS - 1000, "ended with exit code 78: see its log"),
    ],
)
def test_an_app_that_ended_has_its_own_reason(name: str, started_ms: int, detail: str) -> None:
    failed = replace(BEAT, state=AppState.FAILED, error="too many partitions")
    beats = [replace(failed, app=name) for name in ("pos", "ticks")]
    assert processes([ProcessInfo(name, "EXITED", 0, started_ms, 78)], beats)[name].detail == detail


def test_an_app_that_this_environment_does_not_name_is_judged_by_its_heartbeat() -> None:
    infos = [ProcessInfo("page_views", "RUNNING", 7, 0, 0), ProcessInfo("page_views-next", "STOPPED", 0, 0, 0)]
    seen = processes(infos)
    assert seen["page_views"].detail == "no heartbeat yet"
    assert seen["page_views-next"].healthy


def test_processes_are_in_the_order_of_starting() -> None:
    names = [
        "control",
        "node-a",
        "pos",
        "kafka",
        "shared_driver",
        "airflow-scheduler",
        "airflow-api-server",
        "pos-next",
    ]
    assert list(processes([ProcessInfo(name, "STOPPED", 0, 0, 0) for name in names])) == [
        *("kafka", "airflow-api-server", "airflow-scheduler", "pos", "shared_driver", "node-a", "control", "pos-next")
    ]


def test_what_runs_without_answering_is_not_healthy() -> None:
    (port,) = free_ports(1)
    settings = PlatformSettings.load(node_port=port, control_port=port, airflow_port=port)
    info = ProcessInfo("node-a", "RUNNING", os.getpid(), 0, 0)
    (seen,) = processes_of([info], [], {}, settings, PlatformApps.configured(), now_ms=NOW_MS, probes=Probes(settings))
    assert (seen.healthy, seen.detail, seen.address) == (False, "does not answer", f"http://127.0.0.1:{port}")
    problems = [Probes(settings).problem(name) for name in ("control", "airflow-scheduler", "pos")]
    assert problems == ["does not answer", "unreachable", None]


@pytest.mark.parametrize(
    ("status", "said", "problem"),
    [
        (200, {}, None),
        (503, {"status": "restoring", "reason": "1 of 2"}, "not ready: 1 of 2"),
        (503, {"status": "lost", "reason": "x was deleted"}, "a changelog is lost: x was deleted"),
        (503, {}, "not ready"),
    ],
)
def test_a_node_serves_when_it_says_that_it_is_ready(status: int, said: dict[str, str], problem: str | None) -> None:
    with fake_node(lambda connection, _: connection.answer(said, status)) as node:
        assert node_problem(node.address, 3.0) == problem


def test_a_node_that_wants_a_token_is_shown_that_of_the_platforms_jobs() -> None:
    with fake_node(lambda connection, _: connection.answer({})) as node:
        assert node_problem(node.address, 3.0, Credentials(token="of-jobs")) is None
    assert "authorization: Bearer of-jobs" in node.heads[0]


def test_a_platform_that_is_down_is_not_healthy(tmp_path: Path) -> None:
    status = collect_status(PlatformSettings.load(run_dir=tmp_path))
    assert not status.healthy
    assert status.processes == []


def test_the_json_has_the_promised_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    done = CliRunner().invoke(entry.app, ["status", "--output", "json"])
    assert done.exit_code == 4
    fields = json.loads(done.stdout)
    assert fields["kafka"] == "127.0.0.1:19092"
    assert fields["query_nodes"] == ["http://127.0.0.1:18101", "http://127.0.0.1:18102"]
    assert fields["airflow"] is None
    assert fields["delta_root"] == str(tmp_path / "delta")
    assert fields["run_dir"] == str(tmp_path)
    assert list(fields["apps"]) == [*TILL_APPS, *SYSTEM_APPS]
    assert fields["processes"] == []


def test_the_table_says_how_to_start_what_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    done = CliRunner().invoke(entry.app, ["status"])
    assert "is down: start it with" in " ".join(done.stdout.split())


def _table(*processes: Process, apps: Sequence[App] = (), width: int = 160) -> str:
    console = Console(width=width, record=True, file=StringIO())
    console.print(status_table(Overview(NOW_MS, processes, apps), PlatformSettings.load(), width))
    return "\n".join(line.rstrip() for line in console.export_text().splitlines())


def _progress(**changes: object) -> str:
    info = ProcessInfo("pos", "RUNNING", 7, 0, 0)
    beat = {"batch_id": None, "offsets": {}, "input_rows_per_second": 0.0} | changes
    return _table(Process("pos", "RUNNING", True, 7, 1, None, ""), apps=[app(process=info, **beat)])  # type: ignore[arg-type]


def test_caught_up_is_told_from_nothing_done() -> None:
    caught_up = {"offsets": BEAT.offsets, "latest_offsets": BEAT.offsets}
    assert "no batch yet\n" in _progress()
    assert "caught up, no batch yet\n" in _progress(**caught_up)
    assert "7 behind, no batch yet\n" in _progress(offsets=BEAT.offsets)
    worked = caught_up | {"batch_id": 4, "input_rows_total": 30}
    assert "caught up, batch 4, 30 read, 0/s\n" in _progress(**worked)
    assert "caught up, 2 left out, batch 4, 30 read, 0/s\n" in _progress(**worked, dropped_total=2)
    assert "caught up, 3 dead letters, batch 4, 30 read, 0/s\n" in _progress(**worked, dead_letters_total=3)
    restoring = {"store": "rewards", "partition": 1, "done": 40, "total": 100, "eta_s": 2.0}
    telling = "7 behind, restores 1 store partition: 40 %, 2 s left, no batch yet\n"
    assert telling in _progress(offsets=BEAT.offsets, restoring=(restoring,))


def test_a_narrow_terminal_cuts_what_was_done_and_not_what_to_act_on() -> None:
    info = ProcessInfo("pos", "RUNNING", 7, 0, 0)
    ill = app(process=info, offsets=BEAT.offsets, batch_id=4_321, input_rows_total=987_654, dead_letters_total=3)
    shown = _table(Process("pos", "RUNNING", True, 7, 1, None, ""), apps=[ill], width=60)
    assert "7 behind, 3 dead letters, " in shown
    assert "987654" not in shown


def test_a_process_that_was_killed_leaves_a_trace() -> None:
    process = Process("node-a", "RUNNING", True, 7, 1, "http://a", "", exits=2, last_exit="terminated by SIGKILL")
    assert "node-a has ended by itself 2 times, the last time: terminated by SIGKILL" in _table(process)


def test_a_process_that_was_stopped_by_a_signal_is_frozen() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            os.kill(sleeper.pid, signal.SIGSTOP)
            eventually(lambda: psutil.Process(sleeper.pid).status() == psutil.STATUS_STOPPED, 60, "it has stopped")
            seen = processes([ProcessInfo("node-b", "RUNNING", sleeper.pid, 0, 0)])["node-b"]
        finally:
            sleeper.kill()
    assert (seen.healthy, seen.detail) == (False, "frozen: its process was stopped by a signal")
