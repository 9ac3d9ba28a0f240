"""A small platform that something keeps alive, wherever it runs: a broker, an app or two, a node or two."""

from __future__ import annotations

import json
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from harness.ports import free_ports
from harness.waiting import eventually

START_S = 900
"""On a slow machine that has other things to do."""
POS = "spark_apps.pos:POS"


@dataclass
class SmallPlatform(ABC):
    """A platform. Its configuration is a file on this machine.

    Attributes:
        folder: of the configuration.
        ports: by their settings.
    """

    folder: Path
    ports: Mapping[str, int]

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        return f"127.0.0.1:{self.ports['kafka_port']}"

    @property
    def node(self) -> str:
        """The first node's address."""
        return f"http://127.0.0.1:{self.ports['node_port']}"

    @property
    @abstractmethod
    def fixed_settings(self) -> Mapping[str, Any]:
        """Those of the place where it runs."""

    @abstractmethod
    def begin_start(self) -> None:
        """Starts what keeps it alive."""

    @abstractmethod
    def call(self, *arguments: str, timeout_s: float = START_S) -> subprocess.CompletedProcess[str]:
        """Runs `storekeeper ARGUMENTS` there."""

    @abstractmethod
    def begin(self, *arguments: str) -> None:
        """Begins `storekeeper ARGUMENTS` there, and waits for nothing."""

    @abstractmethod
    def read(self, path: str) -> str:
        """The text of a file of the run directory."""

    @abstractmethod
    def processes(self) -> Mapping[int, str]:
        """The command lines of its processes and of commands that run, by their ids on this machine."""

    @abstractmethod
    def cut_power(self) -> None:
        """Ends all of its processes at once."""

    @abstractmethod
    def mend(self) -> bool:
        """Does once what a person does after a fault: starts what nobody else starts. Returns whether all works."""

    @abstractmethod
    def logs(self) -> str:
        """What its keeper has said."""

    def configure(self, *, apps: Sequence[str] = (POS,), nodes: Sequence[str] = ("a",), **settings: Any) -> None:
        """Writes the configuration."""
        values: dict[str, Any] = {
            "apps": list(apps),
            "node_names": list(nodes),
            "start_timeout_s": START_S,
            "trigger_interval_ms": 200,
            **self.fixed_settings,
            **self.ports,
            **settings,
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        (self.folder / "storekeeper.toml").write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        """Starts it and waits until it works."""
        self.begin_start()
        self.await_working()

    def await_working(self) -> None:
        """Waits until every process is healthy."""

        def works() -> bool:
            return self.call("status", "--output", "json").returncode == 0

        try:
            eventually(works, START_S, "the platform works")
        except AssertionError as error:
            error.add_note(self.call("status").stdout)
            error.add_note(self.logs()[-5000:])
            raise

    def ask_job(self, name: str, arguments: Sequence[str]) -> None:
        """Asks the control API for a job. There may be no answer."""
        self._ask("PUT", name, json={"arguments": list(arguments)})

    def job_state(self, name: str) -> str:
        """How far a job is; empty if there is no answer, or no such job."""
        answer = self._ask("GET", name)
        return str(answer.json()["state"]) if answer is not None and answer.is_success else ""

    def _ask(self, method: str, name: str, **more: Any) -> httpx2.Response | None:
        try:
            headers = {"Authorization": f"Bearer {self.read('secrets/control.token').strip()}"}
            url = f"http://127.0.0.1:{self.ports['control_port']}/jobs/{name}"
            return httpx2.request(method, url, headers=headers, timeout=30, trust_env=False, **more)
        except (httpx2.HTTPError, OSError, AssertionError):
            return None


def small_ports() -> dict[str, int]:
    """Free ports for all that it may have."""
    airflow, supervisor, control = free_ports(3)
    # Each has the next port, too: of the controller and the second node.
    kafka, node = (
        next(pair for pair in iter(lambda: free_ports(2), []) if pair[1] == pair[0] + 1)[0] for _ in range(2)
    )
    return {
        "kafka_port": kafka,
        "airflow_port": airflow,
        "supervisor_port": supervisor,
        "control_port": control,
        "node_port": node,
    }
