"""An Airflow home that tests share, and a supervisor of toy apps for each test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.dags.supervised import Supervised, environment, start_supervised

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
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a migrated Airflow home."""
    home = tmp_path_factory.mktemp("airflow")
    variables = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(_PROJECT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
    }
    subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        env=environment(home, **variables),
        check=True,
        timeout=_RUN_S,
        capture_output=True,
    )
    return variables


RunDag = Callable[..., DagRun]


@pytest.fixture
def run_dag(airflow_home: dict[str, str], tmp_path: Path) -> RunDag:
    """Runs a DAG: `run_dag("stream_apps", {"app": "loyalty"}, STOREKEEPER_WATCH_STALE_S="1")`."""

    def run(dag_id: str, conf: dict[str, Any] | None = None, **settings: str) -> DagRun:
        done = subprocess.run(
            [sys.executable, "-m", "tests.dags.run_dag", dag_id, json.dumps(conf or {})],
            env=environment(tmp_path / "run", **airflow_home, **settings),
            cwd=_PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_RUN_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return DagRun(**json.loads(done.stdout.splitlines()[-1]), log=done.stdout)

    return run


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    """A supervisor whose apps are stopped."""
    running = start_supervised(tmp_path / "run")
    yield running
    running.end()
