"""Jobs whose program is a toy, and a control process of them."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil

from harness.ports import free_ports
from harness.waiting import eventually
from storekeeper.clock import SystemClock
from storekeeper.node.security.no_tls import NO_TLS
from tests.ops.control import toy_command

WAIT_S = 60
_PROJECT = Path(__file__).parents[3]


def toy(*words: str) -> list[str]:
    """The command line of the toy in place of `storekeeper`."""
    return [sys.executable, toy_command.__file__, *words]


def began(file: Path) -> list[int]:
    """The pids of the runs that have begun."""
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


def await_begin(file: Path) -> int:
    """The pid of the first run, as soon as it has begun."""
    return eventually(lambda: began(file), WAIT_S, "the job begins")[0]


def await_end(pid: int) -> None:
    """Waits until a process has ended."""

    def is_gone() -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    eventually(is_gone, WAIT_S, f"process {pid} ends")


def let_end(file: Path) -> None:
    """Lets the toy end."""
    Path(f"{file}.go").touch()


@dataclass(slots=True)
class ControlProcess:
    """A real process of the control API on a run directory."""

    run_dir: Path
    commands: str = "toy"
    """`toy`; `real` for the real ones; or a folder that has others, ahead of the project's."""
    port: int = field(default_factory=lambda: free_ports(1)[0])
    variables: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    host: str = "127.0.0.1"
    tls: ssl.SSLContext = NO_TLS

    @property
    def address(self) -> str:
        """Its address."""
        return f"http{'' if self.tls is NO_TLS else 's'}://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """The token of the run directory."""
        return (self.run_dir / "secrets" / "control.token").read_text().strip()

    def start(self, tls: ssl.SSLContext = NO_TLS) -> None:
        """Starts it, and waits until it answers."""
        self.tls = tls
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.ops.control.toys", self.host, str(self.port), self.commands],
            env={**os.environ, "STOREKEEPER_RUN_DIR": str(self.run_dir), **self.variables},  # noqa: TID251 (handed on)
            cwd=_PROJECT,
        )
        eventually(self._answers, WAIT_S, "the control API answers")

    def kill(self) -> None:
        """Ends it without a chance to do anything."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ends it by TERM. Returns its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(WAIT_S)

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """An answer to a caller with the token."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx2.request(
            method, self.address + path, headers=headers, trust_env=False, verify=self.tls, timeout=30, **more
        )

    def put(self, name: str, *arguments: str) -> dict[str, Any]:
        """Asks for a job."""
        answer = self.ask("PUT", f"/jobs/{name}", json={"arguments": list(arguments)})
        assert answer.status_code in {200, 201}, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def await_state(self, name: str, state: str) -> dict[str, Any]:
        """The job as soon as it is in that state."""

        def found() -> dict[str, Any] | None:
            job: dict[str, Any] = self.ask("GET", f"/jobs/{name}").json()
            return job if job["state"] == state else None

        return eventually(found, WAIT_S, f"job {name} is {state}")

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, "the control process has ended"
        try:
            return httpx2.get(self.address + "/livez", trust_env=False, verify=self.tls).status_code == 200
        except httpx2.HTTPError:
            return False


def main(host: str, port: str, commands: str) -> None:
    """Runs the control API, with other commands in place of the program's where that was asked for."""
    from functools import partial

    from storekeeper.ops.control import server
    from storekeeper.ops.control.jobs import Jobs
    from storekeeper.ops.control.views import PlatformViews
    from storekeeper.ops.settings import PlatformSettings

    if commands == "toy":
        server.Jobs = partial(Jobs, command=toy)  # type: ignore[attr-defined, assignment]
    elif commands != "real":
        server.Jobs = partial(Jobs, command=partial(_others, commands))  # type: ignore[attr-defined, assignment]
        PlatformViews.generations = lambda _, app: _other_generations(commands, app)  # type: ignore[assignment, method-assign]
    settings = PlatformSettings.load()
    server.run_control(settings, host, int(port), SystemClock())
    (settings.run_dir / "loaded.json").write_text(json.dumps([*sys.modules]))


def _others(folder: str, *words: str) -> list[str]:
    """The command line of the entry in another folder; of the real one for `app`, which talks to the supervisor."""
    first = [] if words[0] == "app" else [folder]
    paths = ":".join([*first, str(_PROJECT)])
    return ["env", f"PYTHONPATH={paths}", "PYTHONSAFEPATH=1", sys.executable, "-m", "storekeeper.cli.entry", *words]


def _other_generations(folder: str, app: str) -> dict[str, Any]:
    command = _others(folder, "generation", "status", app, "--output", "json")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
