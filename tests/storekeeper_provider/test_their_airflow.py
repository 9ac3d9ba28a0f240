"""Our DAGs and the page *Stores* in an Airflow that has only the provider's wheel of ours, through real kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import psutil
import pytest

from harness.distributions import build
from harness.waiting import eventually
from storekeeper.ops.control.jobs import end_job_processes
from tests.ops.control.supervised import start_supervised
from tests.ops.control.toys import ControlProcess
from tests.storekeeper_provider.their_airflow import TheirAirflow, make_environment, running_airflow

pytestmark = [
    *(pytest.mark.airflow, pytest.mark.timeout(3600)),
    pytest.mark.long("tests/dags/test_dag_files.py and test_operators.py, in the environment of the product"),
]
PROJECT = Path(__file__).parents[2]
DAGS = {path.stem for path in (PROJECT / "storekeeper_provider" / "dags").glob("*.py") if path.stem != "__init__"}
_RUN_S = 600


@dataclass(frozen=True, slots=True)
class Both:
    """Their Airflow, and the platform that it operates."""

    airflow: TheirAirflow
    control: ControlProcess

    @property
    def began(self) -> Counter[str]:
        """How often each job has begun."""
        file = self.control.run_dir / "began"
        return Counter(file.read_text().splitlines() if file.exists() else [])

    @property
    def hold(self) -> Path:
        """While this file is there, jobs don't end."""
        return self.control.run_dir / "hold"

    def run(self, dag_id: str, conf: dict[str, object] | None = None) -> None:
        """Runs a DAG; it must succeed."""
        with self.airflow.client() as client:
            client.unpause(dag_id)
            client.wait_for_run(dag_id, client.trigger(dag_id, conf), _RUN_S)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Both]:
    """The two of them; apps and jobs are toys, and the supervisor of the apps is real."""
    folder = tmp_path_factory.mktemp("theirs")
    environment = make_environment(
        request.config.cache.mkdir("their-airflow"), build("airflow-provider-storekeeper", folder / "wheel").wheel
    )
    supervised = start_supervised(folder / "run")
    control = ControlProcess(folder / "run", f"{PROJECT}/tests/dags/toy_path")
    control.start()
    home = folder / "airflow"
    subprocess.run(
        [sys.executable, "-m", "storekeeper.cli.entry", "export-dags", str(home / "dags" / "storekeeper")],
        env={**os.environ, "STOREKEEPER_RUN_DIR": str(folder / "run")},  # noqa: TID251 (handed on to a child)
        cwd=PROJECT, check=True, capture_output=True,
    )  # fmt: skip
    try:
        connection = {"host": control.address, "password": control.token}
        with running_airflow(environment, home, connection) as airflow:
            yield Both(airflow, control)
    finally:
        end_job_processes(control.run_dir / "jobs")
        control.stop()
        supervised.end()


def test_all_dags_parse_without_the_product(both: Both) -> None:
    code = "import importlib.util as u; print([n for n in ('storekeeper',) if u.find_spec(n)])"
    python = str(both.airflow.environment / "bin" / "python")
    found = subprocess.run([python, "-c", code], cwd="/", env={}, check=True, capture_output=True, text=True).stdout
    assert found.strip() == "[]"
    with both.airflow.client() as client:
        eventually(lambda: all(map(client.has_dag, DAGS)), _RUN_S, "all DAGs are parsed")
        assert client.import_errors() == []


@pytest.mark.parametrize(
    ("dag_id", "conf"),
    [
        ("stream_apps", {"app": "pos", "action": "start"}),
        ("verify_stores", {"store": "rewards"}),
        ("check_tables", {}),
        ("snapshot_stores", {"store": "rewards"}),
        ("cleanup_stores", {"store": "rewards", "approval": False, "canary_wait_minutes": 0}),
        (
            "migrate_state",
            {"app": "pos", "approval": False, "watch_minutes": 0, "max_behind": 5, "afterwards": "retire"},
        ),
    ],
)
def test_a_dag_runs(both: Both, dag_id: str, conf: dict[str, object]) -> None:
    both.run(dag_id, conf)


def test_the_page_shows_the_platform_to_those_who_have_signed_in(both: Both) -> None:
    glance = f"{both.airflow.address}/storekeeper/glance"
    assert httpx2.get(glance, trust_env=False, timeout=60).status_code in {401, 403}
    with both.airflow.client() as client:
        client.newest_run("stream_apps")
        login = {"Authorization": client._http.headers["Authorization"]}
    seen = httpx2.get(glance, headers=login, trust_env=False, timeout=60)
    assert seen.status_code == 200, seen.text
    assert {table["name"] for table in seen.json()["tables"]} == {"apps", "stores", "nodes", "verdicts", "processes"}
    assert "pos" in seen.text
    topology = httpx2.get(
        f"{both.airflow.address}/storekeeper/topology/pos", headers=login, trust_env=False, timeout=60
    )
    assert "<svg" in topology.text


def test_a_job_that_ended_with_its_control_process_runs_again(both: Both) -> None:
    both.hold.touch()
    with both.airflow.client() as client:
        client.unpause("snapshot_stores")
        run = client.trigger("snapshot_stores", {"store": "prices"})
        eventually(lambda: both.began["snapshot create prices"], _RUN_S, "the job runs")
        both.control.kill()
        both.control.start()
        both.hold.unlink()
        client.wait_for_run("snapshot_stores", run, _RUN_S)
    assert both.began["snapshot create prices"] == 2


def test_a_task_that_is_killed_while_it_asks_for_its_job_finds_it_again(both: Both) -> None:
    both.hold.touch()
    run = _ask_a_control_process_that_hangs(both, "orders")
    for task in _tasks_that_ask(both):
        task.kill()
    _go_on(both)
    with both.airflow.client() as client:

        def waits() -> bool:
            return "deferred" in client.task_states("snapshot_stores", run).values()

        eventually(waits, _RUN_S, "the next try has found its job")
        both.hold.unlink()
        client.wait_for_run("snapshot_stores", run, _RUN_S)
    assert both.began["snapshot create orders"] == 1


def test_a_scheduler_that_is_killed_while_a_task_runs_loses_and_doubles_nothing(both: Both) -> None:
    run = _ask_a_control_process_that_hangs(both, "players")
    _tasks_that_ask(both)
    both.hold.touch()
    both.airflow.kill("scheduler")
    _go_on(both)
    eventually(lambda: both.began["snapshot create players"], _RUN_S, "the job runs")
    both.airflow.start("scheduler")
    both.hold.unlink()
    with both.airflow.client() as client:
        client.wait_for_run("snapshot_stores", run, 2 * _RUN_S)
    assert both.began["snapshot create players"] == 1


def _ask_a_control_process_that_hangs(both: Both, store: str) -> str:
    """Has a run begin whose second task asks for a job, and gets no answer. Returns the run."""
    assert both.control.process is not None
    both.control.process.send_signal(signal.SIGSTOP)
    with both.airflow.client() as client:
        run = client.trigger("snapshot_stores", {"store": store})

        def has_chosen() -> bool:
            return client.task_states("snapshot_stores", run).get("choose") == "success"

        eventually(has_chosen, _RUN_S, "a store is chosen")
    return run


def _tasks_that_ask(both: Both) -> list[psutil.Process]:
    """The process of the task, once it waits for an answer of the control process."""
    return eventually(lambda: both.airflow.tasks_that_ask(both.control.port), _RUN_S, "a task asks")


def _go_on(both: Both) -> None:
    assert both.control.process is not None
    both.control.process.send_signal(signal.SIGCONT)
