"""A small platform on this machine that `storekeeper up` starts, as on a laptop: a person repeats it after a fault."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from harness.project import ROOT
from storekeeper.ops.environment import inherited_environment
from storekeeper.ops.supervisor import find_orphans
from storekeeper.program import storekeeper_command
from tests.containers.small_platform import START_S, SmallPlatform, small_ports


@dataclass
class HostPlatform(SmallPlatform):
    """A platform on this machine."""

    _begun: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def run_dir(self) -> Path:
        """Its run directory."""
        return self.folder / "run"

    @property
    def fixed_settings(self) -> Mapping[str, Any]:
        """Its run directory, and the project."""
        return {"run_dir": str(self.run_dir), "project_dir": str(ROOT)}

    def begin_start(self) -> None:
        """Begins `storekeeper up`."""
        self.begin("up")

    def call(self, *arguments: str, timeout_s: float = START_S) -> subprocess.CompletedProcess[str]:
        """Runs `storekeeper ARGUMENTS`."""
        return subprocess.run(
            storekeeper_command(*arguments),
            env=self._environment, cwd=self.folder, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip

    def begin(self, *arguments: str) -> None:
        """Begins `storekeeper ARGUMENTS`, and waits for nothing."""
        with (self.folder / "said").open("ab") as said:
            command = storekeeper_command(*arguments)
            self._begun.append(
                subprocess.Popen(command, env=self._environment, cwd=self.folder, stdout=said, stderr=said)
            )

    def read(self, path: str) -> str:
        """The text of a file of the run directory."""
        return (self.run_dir / path).read_text()

    def processes(self) -> Mapping[int, str]:
        """The command lines of its processes and of commands that run."""
        found: dict[int, str] = {one.pid: " ".join(one.args) for one in self._begun if one.poll() is None}  # type: ignore[arg-type]
        for process in find_orphans(self.run_dir):
            with suppress(psutil.NoSuchProcess):
                found[process.pid] = " ".join(process.cmdline())
        return found

    def cut_power(self) -> None:
        """Ends all of its processes at once."""
        while processes := self.processes():
            for pid in processes:
                with suppress(psutil.NoSuchProcess):
                    psutil.Process(pid).kill()

    def mend(self) -> bool:
        """Repeats `storekeeper up`, which also applies the configuration. Returns whether all works."""
        return self.call("up").returncode == 0

    def logs(self) -> str:
        """What commands have said."""
        return (self.folder / "said").read_text(errors="replace")

    @property
    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in inherited_environment().items() if not name.startswith("STOREKEEPER_")}
        return {**kept, "STOREKEEPER_CONFIG": str(self.folder / "storekeeper.toml")}


@contextmanager
def host_platform(folder: Path) -> Iterator[HostPlatform]:
    """A platform that was not started, with a configuration of the app `pos`. Nothing of it is left behind.

    Args:
        folder: an empty one.
    """
    platform = HostPlatform(folder, small_ports())
    platform.configure()
    try:
        yield platform
    finally:
        platform.cut_power()
