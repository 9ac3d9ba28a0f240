"""What only a real scheduler and a real triggerer do: watch a staged table, and miss a deadline."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import eventually
from storekeeper.ops.control.jobs import end_job_processes
from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.verdict import Status, Verdict, VerdictArchive
from tests.dags.conftest import connection_to
from tests.ops.control.toys import ControlProcess
from tests.staged_lines import line, stage
from tests.storekeeper_provider.live_airflow import WAIT_S, LiveAirflow

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(1200)]

_CHECK = """
from datetime import timedelta
from airflow.sdk import DAG, AssetAny
from storekeeper_provider.operators import StorekeeperJobOperator
from storekeeper_provider.staged_rows import staged_table

asset = staged_table("hadoop_export", ask_every=timedelta(seconds=1))
with DAG("check", schedule=AssetAny(asset)):
    StorekeeperJobOperator(task_id="check", arguments=["verify", {file!r}], inlets=[asset])
"""
_LATE = """
from datetime import timedelta
from airflow.sdk import DAG
from storekeeper_provider.dag_parts.runs import done_within
from storekeeper_provider.sensors import PlatformHealthySensor

with DAG("late", schedule="@once", deadline=done_within(timedelta(seconds=1))):
    PlatformHealthySensor(task_id="wait")
"""
_VERDICT = Verdict("hadoop_export", Status.QUARANTINED, 0, 0, rows=1, decided_at_ms=0)


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlProcess]:
    """A control API whose jobs are toys, on a run directory with real tables."""
    running = ControlProcess(tmp_path / "run")
    running.start()
    yield running
    end_job_processes(running.run_dir / "jobs")
    running.stop()


@pytest.fixture
def airflow(tmp_path: Path, control: ControlProcess) -> Iterator[LiveAirflow]:
    """An Airflow with a connection to it, which a test starts."""
    made = LiveAirflow(tmp_path / "airflow", {"AIRFLOW_CONN_STOREKEEPER_DEFAULT": connection_to(control)})
    made.dags.mkdir(parents=True)
    yield made
    made.stop()


@pytest.mark.long("test_staged_rows.py asks what the trigger asks, and fires as it fires")
def test_staged_rows_start_a_run_once_and_a_platform_that_is_away_is_waited_for(
    airflow: LiveAirflow, control: ControlProcess, tmp_path: Path
) -> None:
    settings = QualitySettings(run_dir=control.run_dir)  # type: ignore[call-arg]
    archive = VerdictArchive(settings.verdict_dir("hadoop_export"))

    def events() -> list[dict[str, int]]:
        rows = airflow.rows("SELECT extra FROM asset_event ORDER BY id")
        return [json.loads(extra)["payload"] for (extra,) in rows]

    def await_events(count: int) -> None:
        eventually(lambda: len(events()) >= count, WAIT_S, f"event {count}")

    (tmp_path / "toy.go").touch()
    (airflow.dags / "check.py").write_text(_CHECK.format(file=str(tmp_path / "toy")))
    stage(settings, line(0))
    airflow.start()
    await_events(1)

    # What is staged while the check runs waits until the check has decided.
    stage(settings, line(1))
    archive.put(replace(_VERDICT, last_version=0))
    await_events(2)

    control.stop()
    eventually(lambda: "can't tell whether table" in airflow.log("triggerer"), WAIT_S, "the platform is missed")
    archive.put(replace(_VERDICT, first_version=1, last_version=1))
    stage(settings, line(2))
    control.start()
    await_events(3)
    assert airflow.log("triggerer").count("can't tell whether table") == 1
    assert airflow.is_alive("triggerer")

    airflow.kill("triggerer")
    started = airflow.log("triggerer").count("starting")
    airflow.start_component("triggerer")
    eventually(lambda: airflow.log("triggerer").count("starting") > started, WAIT_S, "another one takes over")
    archive.put(replace(_VERDICT, first_version=2, last_version=2))
    stage(settings, line(3))
    await_events(4)
    versions = [(event["first_version"], event["last_version"], event["rows"]) for event in events()]
    assert versions == [(0, 0, 1), (1, 1, 1), (2, 2, 1), (3, 3, 1)]

    # A scheduler that is late starts one run for two events.
    handled = """
        SELECT DISTINCT event_id FROM dagrun_asset_event JOIN dag_run ON dag_run.id = dag_run_id
        WHERE dag_id = 'check' AND state = 'success'
    """
    eventually(lambda: len(airflow.rows(handled)) == 4, WAIT_S, "each event has had a run")


@pytest.mark.long("test_dag_files.py finds the deadlines, test_notifications.py posts to a webhook")
@pytest.mark.usefixtures("control")
def test_a_missed_deadline_reaches_the_webhook(airflow: LiveAirflow) -> None:
    got: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    (airflow.dags / "late.py").write_text(_LATE)
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        webhook = {"class": "storekeeper_provider.notifications.WebhookNotifier"}
        named = [{**webhook, "url": f"http://127.0.0.1:{server.server_port}/hook"}]
        airflow.variables["AIRFLOW_VAR_STOREKEEPER_NOTIFIERS"] = json.dumps(named)
        try:
            airflow.start()
            eventually(lambda: got, WAIT_S, "the webhook is called")
        finally:
            server.shutdown()
            thread.join()
    ((run_id,),) = airflow.rows("SELECT run_id FROM dag_run WHERE dag_id = 'late'")
    assert [(one["dag_id"], one["run_id"]) for one in got] == [("late", run_id)]
    assert run_id in got[0]["text"]
