"""A control API with toy jobs, and Airflow's connection to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from storekeeper.ops.control.jobs import end_job_processes
from storekeeper_provider import operators
from tests.dags.conftest import connection_to
from tests.ops.control.toys import ControlProcess


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triggers ask more often: there is no scheduler that could be late."""
    monkeypatch.setattr(operators, "FIRST_PAUSE_S", 0.1)
    monkeypatch.setattr(operators, "PAUSE_S", 0.1)


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlProcess]:
    """One for a module, whose jobs are toys."""
    running = ControlProcess(tmp_path_factory.mktemp("control") / "run")
    running.start()
    yield running
    end_job_processes(running.run_dir / "jobs")
    running.stop()


@pytest.fixture
def connection(control: ControlProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow has a connection to the control API."""
    monkeypatch.setenv("AIRFLOW_CONN_STOREKEEPER_DEFAULT", connection_to(control))


@pytest.fixture
def no_connection(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Airflow has a connection to nothing."""
    token = tmp_path / "token"
    token.write_text("skt_secret")
    fields = {"conn_type": "storekeeper", "host": "127.0.0.1", "port": 9, "extra": {"token_file": str(token)}}
    monkeypatch.setenv("AIRFLOW_CONN_STOREKEEPER_DEFAULT", json.dumps(fields))
