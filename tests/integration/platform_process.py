"""A platform of its own for a test: free ports, a run directory, and the command line as a user calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import project
from harness.ports import free_ports
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.supervisor_rpc import SupervisorRpc

STOREKEEPER = str(Path(sys.executable).with_name("storekeeper"))


@dataclass(frozen=True, slots=True)
class PlatformProcess:
    """How to call `storekeeper` for one run directory."""

    run_dir: Path
    environment: Mapping[str, str]

    @staticmethod
    def in_folder(run_dir: Path, **settings: str) -> PlatformProcess:
        """A platform on free ports, which runs the apps of the tills unless `settings` name others.

        `settings` are variables without their prefix, in small letters.
        """
        airflow, supervisor, control = free_ports(3)
        # Each has the next port, too: of the controller and the second node.
        kafka, first_node = (
            next(pair for pair in iter(lambda: free_ports(2), []) if pair[1] == pair[0] + 1)[0] for _ in range(2)
        )
        own = {
            "run_dir": str(run_dir),
            "kafka_port": str(kafka),
            "airflow_port": str(airflow),
            "supervisor_port": str(supervisor),
            "control_port": str(control),
            "node_port": str(first_node),
            # Beside other tests on a slow machine, an app that takes a few seconds has taken three minutes.
            "start_timeout_s": "900",
            "airflow": "embedded",
            "apps": project.TILLS,
            "project_dir": str(project.ROOT),
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STOREKEEPER_")}  # noqa: TID251
        named = {f"STOREKEEPER_{name.upper()}": value for name, value in (own | settings).items()}
        # One compiler is enough for a broker that lives for minutes: the other would take more than its work.
        return PlatformProcess(run_dir, {**kept, "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"} | named)

    def call(self, *arguments: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return subprocess.run(
            [STOREKEEPER, *arguments],
            env=dict(self.environment),
            cwd=self.run_dir.parent,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts a command whose output is one text."""
        return self._begun([STOREKEEPER, *arguments])

    def begin_demo(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts the demo in this run directory."""
        return self._begun([sys.executable, "-m", "demo", "--run-dir", str(self.run_dir), *arguments])

    def _begun(self, command: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            env=dict(self.environment),
            cwd=self.run_dir.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def status(self) -> dict[str, Any]:
        """What `status --output json` says."""
        fields: dict[str, Any] = json.loads(self.call("status", "--output", "json").stdout)
        return fields


def supervisor_of(run_dir: Path) -> SupervisorRpc:
    """A client of the supervisor that runs in `run_dir`."""
    return SupervisorRpc.from_secret(RunLayout(run_dir).supervisor_secret)
