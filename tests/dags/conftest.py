"""An Airflow home that tests share, and a supervisor of toy apps for each test."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness import adjusted
from storekeeper.ops.control.jobs import end_job_processes
from storekeeper.ops.dag_export import export_dags
from tests.ops.conftest import supervised  # noqa: F401 (a fixture)
from tests.ops.control.supervised import environment
from tests.ops.control.toys import ControlProcess

_PROJECT = Path(__file__).parents[2]
_RUN_S = 300

# Importing the operators imports Airflow, which at once writes its configuration into its home.
_HOME_OF_IMPORTS = tempfile.TemporaryDirectory(prefix="airflow-")
os.environ.setdefault("AIRFLOW_HOME", _HOME_OF_IMPORTS.name)  # noqa: TID251 (written for Airflow, not read)


@dataclass(frozen=True, slots=True)
class DagRun:
    """The outcome of a run: its state, its tasks' states, what the tasks returned, and all that was logged.

    `triggered` is the conf of each run that it has triggered, by the DAG.
    """

    state: str
    tasks: dict[str, str]
    results: dict[str, Any]
    triggered: dict[str, Any]
    log: str


@pytest.fixture(scope="session")
def airflow_home(airflow_database: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a migrated Airflow home, with our DAG files in its DAG folder."""
    home = tmp_path_factory.mktemp("airflow")
    export_dags(home / "dags", 60)
    shutil.copy(airflow_database, home)
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
    }


@dataclass(frozen=True, slots=True)
class DagServer:
    """The process whose forks run DAGs; see `run_dag.py`."""

    process: subprocess.Popen[str]
    folder: Path
    """The DAG files."""

    def run(self, dag_id: str, conf: dict[str, Any], variables: dict[str, str], output: Path) -> int:
        """Runs a DAG to its end; what it says is in `output`. Returns its exit code."""
        return self._order(dag_id, variables, output, conf=conf)

    def taken(self, dag_id: str, wrong: list[dict[str, Any]], variables: dict[str, str], output: Path) -> list[Any]:
        """Tries to run a DAG with each of some wrong confs. Returns those that Airflow didn't refuse."""
        assert self._order(dag_id, variables, output, wrong=wrong) == 0, output.read_text()
        found: list[Any] = json.loads(output.read_text().splitlines()[-1])
        return found

    def _order(self, dag_id: str, variables: dict[str, str], output: Path, **confs: object) -> int:
        file = str(self.folder / f"{dag_id}.py")
        order = {
            "file": file,
            **confs,
            # A run parses every DAG of the folder, and writes it to the database, before it begins.
            "environment": {**variables, "AIRFLOW__CORE__DAGS_FOLDER": file},
            "output": str(output),
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{json.dumps(order)}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@pytest.fixture(scope="session")
def dag_server(airflow_home: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagServer]:
    """One for all tests, on the shared Airflow home."""
    # There is no scheduler that could be late.
    pauses = {f"storekeeper_provider.operators:{name}": 0.5 for name in ("FIRST_PAUSE_S", "PAUSE_S")}
    process = subprocess.Popen(
        [sys.executable, *adjusted.command(pauses, "tests.dags.run_dag", [])],
        env=environment(tmp_path_factory.mktemp("dag-server"), **airflow_home),
        cwd=_PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    yield DagServer(process, Path(airflow_home["AIRFLOW__CORE__DAGS_FOLDER"]))
    process.communicate(timeout=_RUN_S)


RunDag = Callable[..., DagRun]


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlProcess]:
    """The control API of the run directory, with the real commands; it is started by the first run of a DAG."""
    running = ControlProcess(tmp_path / "run", "real")
    yield running
    if running.process is not None:
        end_job_processes(tmp_path / "run" / "jobs")
        running.stop()


def connection_to(control: ControlProcess) -> str:
    """Airflow's connection."""
    extra = {"token_file": str(control.run_dir / "secrets" / "control.token"), "query_page": "http://127.0.0.1:1"}
    return json.dumps({"conn_type": "storekeeper", "host": control.address, "extra": extra})


@pytest.fixture
def run_dag(dag_server: DagServer, airflow_home: dict[str, str], control: ControlProcess, tmp_path: Path) -> RunDag:
    """Runs a DAG: `run_dag("stream_apps", {"app": "pos"})`. `control.variables` are those of its jobs."""
    outputs = (tmp_path / f"run-{number}.log" for number in count())

    def run(dag_id: str, conf: dict[str, Any] | None = None, **settings: str) -> DagRun:
        output = next(outputs)
        if control.process is None:
            control.start()
        chosen = {**airflow_home, "AIRFLOW_CONN_STOREKEEPER_DEFAULT": connection_to(control), **settings}
        code = dag_server.run(dag_id, conf or {}, environment(tmp_path / "run", **chosen), output)
        said = output.read_text()
        assert code == 0, said
        return DagRun(**json.loads(said.splitlines()[-1]), log=said)

    return run
