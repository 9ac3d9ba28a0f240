"""A Docker engine for tests: the one that answers, or one of its own in a temporary folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from harness.waiting import eventually
from storekeeper.ops.environment import inherited_environment

_START_TIMEOUT_S = 120
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Without them containers don't start on a machine that forbids to raise a limit.
_LIMITS = ("--default-ulimit", "nofile=20000:20000", "--default-ulimit", "nproc=20000:20000")


class NoEngineError(Exception):
    """No engine answers and none can be started, with the reason."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that answers at an address; None is that of the environment."""

    address: str | None

    @property
    def environment(self) -> dict[str, str]:
        """What its clients are started with."""
        given = {"DOCKER_BUILDKIT": "0"} if shutil.which("docker-buildx") is None else {}
        address = {} if self.address is None else {"DOCKER_HOST": self.address}
        return {**inherited_environment(), **given, **address}

    def call(
        self, *arguments: str, check: bool = True, timeout_s: float = 600, data: bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs `docker ARGUMENTS`; a failure's message has what it said."""
        done = subprocess.run(
            ["docker", *arguments],
            env=self.environment,
            input=data,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        said = done.stderr.decode(errors="replace")
        assert not check or done.returncode == 0, f"docker {' '.join(arguments)}: {said}{done.stdout.decode()[-3000:]}"
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(errors="replace"), said)

    def says(self, *arguments: str) -> str:
        """What `docker ARGUMENTS` writes."""
        return self.call(*arguments).stdout.strip()

    def inspect(self, name: str) -> dict[str, Any]:
        """What the engine knows of a container or an image."""
        found: list[dict[str, Any]] = json.loads(self.says("inspect", name))
        return found[0]

    def has_image(self, name: str) -> bool:
        """Whether an image is there."""
        return self.call("image", "inspect", name, check=False).returncode == 0

    def compose_command(self) -> list[str]:
        """What runs compose files.

        Raises:
            NoEngineError: nothing does.
        """
        if self.call("compose", "version", check=False).returncode == 0:
            return ["docker", "compose"]
        if shutil.which("docker-compose") is None:
            raise NoEngineError("neither `docker compose` nor docker-compose is installed")
        return ["docker-compose"]

    def processes(self, container: str) -> dict[int, str]:
        """The command lines of a container's processes, by their ids on this machine; none if it doesn't run."""
        listed = self.call("top", container, "-eo", "pid,args", check=False).stdout.splitlines()[1:]
        return {int(pid): command for pid, _, command in (line.strip().partition(" ") for line in listed)}

    def kill_process(self, container: str, said: str) -> bool:
        """Kills the first process of a container whose command line has these words. Returns whether there is one."""
        for pid, command in sorted(self.processes(container).items()):
            if said in command:
                os.kill(pid, signal.SIGKILL)
                return True
        return False


@contextmanager
def engine_for_tests() -> Iterator[Engine]:
    """An engine that answers. One that was started here ends with all of its images and containers.

    Raises:
        NoEngineError: there is none, with the reason.
    """
    if shutil.which("docker") is None:
        raise NoEngineError("the program docker is not installed")
    if _answers(Engine(None)):
        yield Engine(None)
        return
    if shutil.which("dockerd", path=_PATH) is None:
        raise NoEngineError("no Docker engine answers, and dockerd is not installed")
    if os.getuid() != 0:
        raise NoEngineError("no Docker engine answers, and only root can start one")
    folder = Path(tempfile.mkdtemp(prefix="storekeeper-engine-"))
    with _started(folder) as engine:
        yield engine


@contextmanager
def _started(folder: Path) -> Iterator[Engine]:
    engine = Engine(f"unix://{folder}/socket")
    places = {"data-root": "data", "exec-root": "exec", "pidfile": "pid"}
    options = [word for option, name in places.items() for word in (f"--{option}", str(folder / name))]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["dockerd", *options, "--host", str(engine.address), *_LIMITS],
            stdout=log, stderr=log, env={**inherited_environment(), "PATH": _PATH}, start_new_session=True,
        )  # fmt: skip
    try:
        eventually(lambda: _answers(engine) or process.poll() is not None, _START_TIMEOUT_S, "the engine answers")
        if process.poll() is not None:
            msg = f"dockerd ended: {(folder / 'log').read_text(errors='replace')[-300:]}"
            raise NoEngineError(msg)
        yield engine
    finally:
        if process.poll() is None:
            left = engine.call("ps", "--all", "--quiet").stdout.split()
            if left:
                engine.call("rm", "--force", "--volumes", *left, check=False)
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.terminate()
        process.wait(60)
        psutil.wait_procs(children, 30)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(engine: Engine) -> bool:
    return engine.call("version", "--format", "{{.Server.Version}}", check=False, timeout_s=30).returncode == 0
