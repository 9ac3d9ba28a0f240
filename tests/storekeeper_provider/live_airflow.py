"""A whole Airflow as processes: scheduler, DAG processor, triggerer and API server, on DAG files of a test."""

from __future__ import annotations

import os
import secrets
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from harness.ports import free_ports
from harness.waiting import eventually
from storekeeper.node.security.no_tls import NO_TLS
from storekeeper_provider import POOL
from tests.ops.control.supervised import environment

_PROJECT = Path(__file__).parents[2]
_MIGRATE_S = 300
WAIT_S = 240
COMPONENTS = ("api-server", "dag-processor", "scheduler", "triggerer")


@dataclass(slots=True)
class LiveAirflow:
    """An Airflow in a folder, on SQLite. `dags` is the folder of its DAG files; `variables` are for its processes."""

    home: Path
    variables: dict[str, str] = field(default_factory=dict)
    _port: int = field(default_factory=lambda: free_ports(1)[0])
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def dags(self) -> Path:
        """The folder of its DAG files."""
        return self.home / "dags"

    def start(self) -> None:
        """Makes its database and starts its components. Waits until the API server answers."""
        self.dags.mkdir(parents=True, exist_ok=True)
        self.variables = {**_options(self.home, self._port), **self.variables}
        migrate = [sys.executable, "-m", "airflow", "db", "migrate"]
        subprocess.run(migrate, env=self._environment(), check=True, capture_output=True, timeout=_MIGRATE_S)
        pool = [sys.executable, "-m", "airflow", "pools", "set", POOL, "2", "jobs", "--include-deferred"]
        subprocess.run(pool, env=self._environment(), check=True, capture_output=True, timeout=_MIGRATE_S)
        for component in COMPONENTS:
            self.start_component(component)
        eventually(self._answers, WAIT_S, "Airflow's API server answers")

    def start_component(self, component: str) -> None:
        """Starts one component. Its log is appended to that of an earlier one."""
        with (self.home / f"{component}.log").open("ab") as log:
            self._processes[component] = subprocess.Popen(
                [sys.executable, "-m", "airflow", component],
                env=self._environment(),
                cwd=_PROJECT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, component: str) -> None:
        """Ends a component and its children without a chance to do anything."""
        process = self._processes.pop(component)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """Ends all components and their children."""
        for component in tuple(self._processes):
            self.kill(component)

    def log(self, component: str) -> str:
        """What a component has written."""
        return (self.home / f"{component}.log").read_text(errors="replace")

    def is_alive(self, component: str) -> bool:
        """Whether a component's process lives."""
        return self._processes[component].poll() is None

    def rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """Rows of Airflow's database."""
        with closing(sqlite3.connect(self.home / "airflow.db", timeout=30)) as connection:
            return connection.execute(query, values).fetchall()

    def _answers(self) -> bool:
        try:
            version = f"http://127.0.0.1:{self._port}/api/v2/version"
            return httpx2.get(version, trust_env=False, verify=NO_TLS).status_code == 200
        except httpx2.HTTPError:
            return False

    def _environment(self) -> dict[str, str]:
        return environment(self.home, **self.variables)


def _options(home: Path, port: int) -> dict[str, str]:
    options = {
        "CORE__DAGS_FOLDER": str(home / "dags"),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "2",
        "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "CORE__HOSTNAME_CALLABLE": "storekeeper.ops.airflow_home.loopback_host",
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "API__HOST": "127.0.0.1",
        "API__PORT": str(port),
        "API__WORKERS": "1",
        "API_AUTH__JWT_SECRET": secrets.token_urlsafe(32),
        "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
        "WORKERS__EXECUTION_API_TIMEOUT": "30",
        "DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "SCHEDULER__ENABLE_HEALTH_CHECK": "False",
        # A triggerer takes over from a killed one within seconds.
        "TRIGGERER__JOB_HEARTBEAT_SEC": "1",
        "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "5",
        "LOGGING__COLORED_CONSOLE_LOG": "False",
        "USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    return {"AIRFLOW_HOME": str(home), **{f"AIRFLOW__{name}": value for name, value in options.items()}}
