"""Jobs whose program is a toy, and a control process of them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil

from harness.ports import free_ports
from harness.waiting import eventually
from state.clock import SystemClock
from tests.deploy.control import toy_command

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
    port: int = field(default_factory=lambda: free_ports(1)[0])
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """The token of the run directory."""
        return (self.run_dir / "secrets" / "control.token").read_text().strip()

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.deploy.control.toys", str(self.port)],
            env={**os.environ, "STOREKEEPER_RUN_DIR": str(self.run_dir)},  # noqa: TID251 (handed on to a child)
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
        return httpx2.request(method, self.address + path, headers=headers, trust_env=False, timeout=30, **more)

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
            return httpx2.get(self.address + "/livez", trust_env=False).status_code == 200
        except httpx2.HTTPError:
            return False


def main(port: str) -> None:
    """Runs the control API with the toy in place of the program."""
    from functools import partial

    from deploy.control import server
    from deploy.control.jobs import Jobs
    from deploy.settings import PlatformSettings

    server.Jobs = partial(Jobs, command=toy)  # type: ignore[attr-defined, assignment]
    server.run_control(PlatformSettings.load(), "127.0.0.1", int(port), SystemClock())


if __name__ == "__main__":
    main(sys.argv[1])
