"""The demo as a user runs it, and what the platform survives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness import project
from harness.project_apps import TILL_APPS
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, read_heartbeat
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.supervisor import find_orphans, stop_everything
from storekeeper.ops.waiting import eventually
from tests.integration.airflow_kills import AppWatch, ask_for, kill_program, kill_task, wait_for_no_strays
from tests.integration.platform_process import PlatformProcess, supervisor_of
from tests.readable import open_to_others

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(1200)),
    pytest.mark.long("test_running_platform.py has the same data and the kill of an app on one shared platform"),
]

_START_TIMEOUT_S = 300
_RECOVERY_TIMEOUT_S = 180
_WATCHED = {"pos", "hadoop_export"}


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[PlatformProcess]:
    made = PlatformProcess.in_folder(tmp_path / "run", shared_apps=project.SYSTEMS)
    yield made
    stop_everything(RunLayout(made.run_dir))


@pytest.mark.parametrize(("shared_apps", "purchases", "poison"), [("", 2500, 30), (project.SYSTEMS, 4000, 48)])
def test_killed_parts_come_back_in_mid_demo_and_nothing_differs(
    platform: PlatformProcess, tmp_path: Path, shared_apps: str, purchases: int, poison: int
) -> None:
    platform = replace(platform, environment={**platform.environment, "STOREKEEPER_SHARED_APPS": shared_apps})
    report_path = tmp_path / "report.json"
    counts, reporting = ("--purchases", str(purchases), "--poison", str(poison)), ("--report", str(report_path))
    demo = platform.begin_demo("--rate", "80", *counts, *reporting)
    try:
        _kill_one_after_the_other(platform.run_dir, demo)
        output, _ = demo.communicate(timeout=600)
    finally:
        _end(demo)
    assert demo.returncode == 0, output
    report = json.loads(report_path.read_text())
    assert report["difference_count"] == 0
    assert report["verdict"] == "green"
    assert report["counts"]["invoices"] == purchases
    assert report["counts"]["dead letters"] >= poison
    assert (report["counts"].get("rows of the other stores", 0) > 500) == bool(shared_apps)
    assert report["quality"] == "published"
    assert find_orphans(platform.run_dir) == []
    _check_readers(platform.run_dir, report_path)


def _check_readers(root: Path, report: Path) -> None:
    tables = root / "delta"
    assert {path.name for path in tables.iterdir()} >= {"rewards", "hadoop_export"}
    assert open_to_others(root) == set()
    assert open_to_others(report) == set()


def test_an_interrupted_start_leaves_nothing(platform: PlatformProcess) -> None:
    up = platform.begin("up")
    try:
        log = platform.run_dir / "logs" / "airflow-scheduler.log"
        assert eventually(log.exists, _START_TIMEOUT_S), "Airflow did not begin to start"
        up.send_signal(signal.SIGTERM)
        output, _ = up.communicate(timeout=120)
    finally:
        _end(up)
    assert up.returncode == 128 + signal.SIGTERM
    assert "interrupted: a platform that was not up before is stopped again" in output
    assert "Traceback" not in output
    assert find_orphans(platform.run_dir) == []


def test_up_heals_what_was_killed_and_down_works_twice(platform: PlatformProcess) -> None:
    first = platform.call("up", timeout_s=1000)
    assert first.returncode == 0, first.stderr
    pids = {process["name"]: process["pid"] for process in platform.status()["processes"]}
    os.kill(supervisor_of(platform.run_dir).pid(), signal.SIGKILL)
    os.kill(pids["airflow-scheduler"], signal.SIGKILL)
    os.kill(pids["shared_driver"], signal.SIGKILL)
    assert platform.call("status").returncode == 4
    healed = platform.call("up", timeout_s=1000)
    assert healed.returncode == 0, healed.stderr
    assert platform.status()["healthy"]
    for _ in range(2):
        down = platform.call("down")
        assert down.returncode == 0, down.stderr
        assert find_orphans(platform.run_dir) == []
    assert platform.call("status").returncode == 4


def _kill_one_after_the_other(run_dir: Path, demo: subprocess.Popen[str]) -> None:
    """Kills apps, a node, the broker and parts of Airflow while the demo publishes; each must come back first."""
    beat_file, watch = RunLayout(run_dir).heartbeat("pos"), AppWatch(tuple(TILL_APPS), run_dir)

    def beats(condition: Callable[[Heartbeat], bool], within_s: float = _RECOVERY_TIMEOUT_S) -> Heartbeat:
        found: list[Heartbeat] = []

        def there() -> bool:
            assert demo.poll() is None, demo.communicate()[0]
            heartbeat = read_heartbeat(beat_file)
            found[:] = [heartbeat] if heartbeat and condition(heartbeat) else []
            return bool(found)

        assert eventually(there, within_s), f"the app did not come so far: {read_heartbeat(beat_file)}"
        return found[0]

    def works(heartbeat: Heartbeat) -> bool:
        return heartbeat.state is AppState.RUNNING and heartbeat.input_rows_total > 0

    first = beats(works, within_s=_START_TIMEOUT_S + _RECOVERY_TIMEOUT_S)
    os.kill(first.pid, signal.SIGKILL)
    second = beats(lambda heartbeat: heartbeat.pid != first.pid and works(heartbeat))
    assert second.jvm_pid is not None
    os.kill(second.jvm_pid, signal.SIGKILL)
    with watch.watching():
        for program in ("node-a", "kafka"):
            kill_program(run_dir, program)
        assert ask_for(run_dir, "hadoop_export", "start")
        assert kill_task(run_dir), "no task ran"
        for program in ("airflow-scheduler", "airflow-triggerer"):
            kill_program(run_dir, program)
        assert wait_for_no_strays(run_dir) == []
        assert eventually(lambda: watch.pids.keys() >= _WATCHED, _RECOVERY_TIMEOUT_S), "the watch saw no apps"
    assert watch.doubled == []
    beats(lambda heartbeat: heartbeat.pid != second.pid and heartbeat.state is AppState.RUNNING)


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        print(process.communicate(timeout=120)[0])
    if process.stdout is not None:
        process.stdout.close()
