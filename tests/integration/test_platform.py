"""The whole platform as a user runs it, and what it survives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dags.operators.errors import SupervisorUnreachableError
from deploy.credentials import AIRFLOW_USER, read_airflow_password
from deploy.down import stop_everything
from deploy.layout import RunLayout
from deploy.orphans import find_orphans
from deploy.waiting import eventually
from spark_apps.heartbeat import AppState, Heartbeat, read_heartbeat
from spark_apps.registry import APPS, ON_DEMAND_APPS
from tests.integration.airflow_kills import wait_for_no_strays
from tests.integration.platform_process import PlatformProcess, supervisor_of

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(1200)]

_START_TIMEOUT_S = 300
_RECOVERY_TIMEOUT_S = 180


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[PlatformProcess]:
    made = PlatformProcess.in_folder(tmp_path / "run", start_timeout_s=str(_START_TIMEOUT_S), publish_rate="80")
    yield made
    for run_dir in (made.run_dir, made.run_dir / "demo"):
        stop_everything(RunLayout(run_dir), timeout_s=30)


def test_killed_parts_come_back_in_mid_demo_and_nothing_differs(platform: PlatformProcess, tmp_path: Path) -> None:
    report_path = tmp_path / "report.json"
    demo = platform.begin("demo", "--purchases", "4000", "--poison", "48", "--report", str(report_path))
    try:
        _kill_one_after_the_other(platform.run_dir / "demo", demo)
        output, _ = demo.communicate(timeout=600)
    finally:
        _end(demo)
    assert demo.returncode == 0, output
    report = json.loads(report_path.read_text())
    assert report["difference_count"] == 0
    assert report["verdict"] == "green"
    assert report["counts"]["invoices"] == 4000
    assert report["counts"]["dead letters"] >= 48
    assert report["counts"]["rows of the other stores"] > 500
    assert report["quality"] == "published"
    assert find_orphans(platform.run_dir / "demo") == []


def test_up_and_down_work_twice_and_heal(platform: PlatformProcess) -> None:
    first = platform.call("up", "--apps", "all", timeout_s=600)
    assert first.returncode == 0, first.stderr
    assert "password" in first.stdout
    status = platform.status()
    assert status["healthy"]
    assert all(process["healthy"] for process in status["processes"])
    assert {app for app, fields in status["apps"].items() if fields["healthy"]} == {*APPS, *ON_DEMAND_APPS}
    metrics = next(process["address"] for process in status["processes"] if process["name"] == "metrics")
    told = httpx2.get(metrics, trust_env=False).text
    assert [app for app in (*APPS, *ON_DEMAND_APPS) if f'spark_app_up{{app="{app}"}} 1.0' not in told] == []

    _check_stores_page(platform)

    again = platform.call("up", "--apps", "all")
    assert again.returncode == 0, again.stderr
    assert "password" not in again.stdout, "it is shown once"
    assert _pids(platform.status()) == _pids(status), "a healthy platform is left alone"

    os.kill(int((platform.run_dir / "supervisor" / "supervisord.pid").read_text()), signal.SIGKILL)
    os.kill(_pids(status)["airflow-scheduler"], signal.SIGKILL)
    os.kill(_pids(status)["together"], signal.SIGKILL)
    assert platform.call("status").returncode == 3
    healed = platform.call("up", "--apps", "all", timeout_s=600)
    assert healed.returncode == 0, healed.stderr
    assert platform.status()["healthy"]

    for _ in range(2):
        down = platform.call("down")
        assert down.returncode == 0, down.stderr
        assert find_orphans(platform.run_dir) == []
    assert platform.call("status").returncode == 3


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
    assert "Interrupted" in output
    assert "Traceback" not in output
    assert find_orphans(platform.run_dir) == []


def _check_stores_page(platform: PlatformProcess) -> None:
    """Airflow's page "Stores" tells whoever has signed in, and nobody else."""
    status = platform.status()
    airflow = next(process["address"] for process in status["processes"] if process["name"] == "airflow-api-server")
    glance = f"{airflow}/storekeeper/glance"
    assert httpx2.get(glance, trust_env=False).status_code == 401
    password = read_airflow_password(RunLayout(platform.run_dir))
    login = httpx2.post(
        f"{airflow}/auth/token", json={"username": AIRFLOW_USER, "password": password}, trust_env=False
    ).json()
    answer = httpx2.get(
        glance, headers={"Authorization": f"Bearer {login['access_token']}"}, trust_env=False, timeout=30
    ).json()
    assert answer["unreachable"] is None
    stores = {store["store"]: store for store in answer["stores"]}
    assert stores["rewards"]["serving"] == stores["rewards"]["replicas"] > 0
    assert {app["app"] for app in answer["apps"] if app["healthy"]} == {*APPS, *ON_DEMAND_APPS}


def _kill_one_after_the_other(run_dir: Path, demo: subprocess.Popen[str]) -> None:
    """Kills the loyalty app, its JVM, a node and the broker while the demo publishes; each must come back first."""
    layout = RunLayout(run_dir)

    def beats(condition: Callable[[Heartbeat], bool]) -> Heartbeat:
        found: list[Heartbeat] = []

        def there() -> bool:
            assert demo.poll() is None, demo.communicate()[0]
            heartbeat = read_heartbeat(layout.heartbeat("loyalty"))
            found[:] = [heartbeat] if heartbeat and condition(heartbeat) else []
            return bool(found)

        assert eventually(there, _RECOVERY_TIMEOUT_S), "the loyalty app did not come so far"
        return found[0]

    def works(heartbeat: Heartbeat) -> bool:
        return heartbeat.state is AppState.RUNNING and heartbeat.input_rows_total > 0

    first = beats(works)
    os.kill(first.pid, signal.SIGKILL)
    second = beats(lambda heartbeat: heartbeat.pid != first.pid and works(heartbeat))
    assert second.jvm_pid is not None
    os.kill(second.jvm_pid, signal.SIGKILL)
    for program in ("node-a", "kafka", "airflow-scheduler", "airflow-triggerer"):
        _kill_program(run_dir, program)
    assert wait_for_no_strays(run_dir) == []
    beats(lambda heartbeat: heartbeat.pid != second.pid and heartbeat.state is AppState.RUNNING)


def _kill_program(run_dir: Path, program: str) -> None:
    supervisor = supervisor_of(run_dir)
    killed = supervisor.process(program).pid
    os.kill(killed, signal.SIGKILL)

    def is_back() -> bool:
        try:
            return supervisor.process(program).pid not in {0, killed}
        except SupervisorUnreachableError:
            return False

    assert eventually(is_back, _RECOVERY_TIMEOUT_S), f"{program} did not come back"


def _pids(status: dict[str, Any]) -> dict[str, int]:
    return {process["name"]: process["pid"] for process in status["processes"]}


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        process.communicate(timeout=120)
    if process.stdout is not None:
        process.stdout.close()
