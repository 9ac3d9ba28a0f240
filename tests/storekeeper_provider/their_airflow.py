"""An Airflow of somebody else: an environment with Airflow and the provider's wheel alone, and its four processes."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness.ports import free_ports
from harness.waiting import eventually
from storekeeper_provider import POOL
from tests.watched_airflow import WatchedAirflow

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
_LOGIN = ("admin", "a password of theirs")
_COMMAND_S = 600
_START_S = 300
_TASK = re.compile(r"^airflow worker -- [0-9a-f]{8}-")


def pins(root: str = "apache-airflow") -> list[str]:
    """A package and all that it needs, in the versions that are installed here: `name==version`."""
    found: dict[str, str] = {}
    waiting: list[tuple[str, frozenset[str]]] = [(root, frozenset())]
    done: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras = one = waiting.pop()
        if one in done:
            continue
        done.add(one)
        distribution = importlib.metadata.distribution(name)
        found[canonicalize_name(name)] = distribution.version
        for needed in map(Requirement, distribution.requires or ()):
            marker = needed.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""})):
                waiting.append((needed.name, frozenset(needed.extras)))
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def make_environment(cache: Path, wheel: Path) -> Path:
    """A virtual environment with Airflow, what it needs, and the wheel. The first is kept for the next time.

    Args:
        cache: the folder to keep it in.
        wheel: the provider's, which is installed anew.
    """
    wanted = pins()
    folder = cache / hashlib.sha256("\n".join([sys.version, *wanted]).encode()).hexdigest()[:16]
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)], check=True)
        subprocess.run([*pip, *wanted], check=True, timeout=3 * _COMMAND_S)
        (folder / "complete").touch()
    subprocess.run([*pip, "--force-reinstall", str(wheel)], check=True, timeout=_COMMAND_S)
    return folder


@dataclass(slots=True)
class TheirAirflow:
    """Its home, and its processes."""

    environment: Path
    home: Path
    port: int = field(default_factory=lambda: free_ports(1)[0])
    secret: str = field(default_factory=lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Where its API server answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def dags(self) -> Path:
        """Its DAG folder."""
        return self.home / "dags"

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables of its processes. None is of ours."""
        options = {
            "CORE__DAGS_FOLDER": str(self.dags),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": "4",
            "CORE__FERNET_KEY": self.secret,
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{_LOGIN[0]}:admin",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "CORE__EXECUTION_API_SERVER_URL": f"{self.address}/execution/",
            "CORE__HOSTNAME_CALLABLE": "socket.gethostname",
            "API__BASE_URL": self.address,
            "API__SECRET_KEY": self.secret,
            "API_AUTH__JWT_SECRET": self.secret,
            "DAG_PROCESSOR__REFRESH_INTERVAL": "20",
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
            "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "20",
            "SCHEDULER__ENABLE_HEALTH_CHECK": "False",
            "LOGGING__BASE_LOG_FOLDER": str(self.home / "logs"),
        }
        return {
            "AIRFLOW_HOME": str(self.home),
            "HOME": str(self.home),
            "PATH": f"{self.environment / 'bin'}:/usr/bin:/bin",
            "SPT_NOENV": "1",  # process titles would be written over the environment, by which tasks are found
            **{f"AIRFLOW__{name}": value for name, value in options.items()},
        }

    def call(self, *arguments: str) -> str:
        """What a command of Airflow prints."""
        done = subprocess.run(
            [str(self.environment / "bin" / "airflow"), *arguments],
            env=dict(self.variables),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def start(self, component: str) -> None:
        """Starts a component, with a log in its home."""
        options = {
            "api-server": ("--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"),
            "scheduler": ("--skip-serve-logs",),
            "triggerer": ("--skip-serve-logs",),
        }.get(component, ())
        with (self.home / f"{component}.log").open("ab") as log:
            self.processes[component] = subprocess.Popen(
                [str(self.environment / "bin" / "airflow"), component, *options],
                env=dict(self.variables), cwd=self.home, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def kill(self, component: str) -> None:
        """Kills a component's process alone: its children stay, as they do with an Airflow that is not ours."""
        self.processes[component].kill()
        self.processes[component].wait()

    def tasks_that_ask(self, port: int) -> list[psutil.Process]:
        """The processes of tasks that have a connection to a port of this machine."""
        return [one for one in self._processes() if _TASK.match(" ".join(_command(one))) and port in _asked(one)]

    def end(self) -> None:
        """Ends all of it, with whatever killed components have left behind."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
        for left in self._processes():
            with suppress(psutil.Error):
                left.send_signal(signal.SIGKILL)
        for process in self.processes.values():
            process.wait()

    def _processes(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("AIRFLOW_HOME") == str(self.home):
                    yield process

    @contextmanager
    def client(self) -> Iterator[WatchedAirflow]:
        """A client that is logged in."""
        with WatchedAirflow(self.address, *_LOGIN, timeout_s=60) as client:
            yield client


def _asked(process: psutil.Process) -> set[int]:
    with suppress(psutil.Error):
        return {one.raddr.port for one in process.net_connections("tcp4") if one.raddr}
    return set()


def _command(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


@contextmanager
def running_airflow(environment: Path, home: Path, connection: Mapping[str, str]) -> Iterator[TheirAirflow]:
    """An Airflow that runs; its connection `storekeeper_default` is in its database.

    Args:
        environment: as `make_environment` makes it.
        home: its home; the DAG files are in `dags`.
        connection: `host` and `password`.
    """
    airflow = TheirAirflow(environment, home)
    (home / "passwords.json").write_text(json.dumps(dict([_LOGIN])))
    airflow.call("db", "migrate")
    airflow.call("pools", "set", POOL, "2", "jobs", "--include-deferred")
    fields = [word for name, value in connection.items() for word in (f"--conn-{name}", value)]
    airflow.call("connections", "add", "storekeeper_default", "--conn-type", "storekeeper", *fields)
    try:
        for component in COMPONENTS:
            airflow.start(component)
        with airflow.client() as client:
            eventually(lambda: set(client.health().values()) == {"healthy"}, _START_S, "their Airflow is healthy")
        yield airflow
    finally:
        airflow.end()
