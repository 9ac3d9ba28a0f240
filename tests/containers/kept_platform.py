"""A small platform in a container that `storekeeper supervise` keeps alive: its command, or a unit of systemd.

It is on the network of this machine, so that tests reach the broker and the nodes as any client.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.broker import JARS
from harness.container_engine import Engine
from harness.project import ROOT
from tests.containers.small_platform import START_S, SmallPlatform, small_ports

USER = 10001
SYSTEMD = "storekeeper-systemd"
"""The image of a host with systemd."""
_CONFIG = "/etc/storekeeper/storekeeper.toml"
_UNIT = ROOT / "storekeeper" / "ops" / "systemd" / "storekeeper.service"
_STOP_S = 300


@dataclass
class KeptPlatform(SmallPlatform):
    """A platform in a container. Its configuration is a file on this machine.

    Attributes:
        engine: the engine.
        name: of the container.
        by_systemd: whether process 1 is systemd.
    """

    engine: Engine
    name: str
    by_systemd: bool

    @property
    def run_dir(self) -> str:
        """Inside."""
        return "/var/lib/storekeeper" if self.by_systemd else "/run/storekeeper"

    @property
    def fixed_settings(self) -> Mapping[str, Any]:
        """Those that the container needs."""
        return {"run_dir": self.run_dir, "jars_dir": "/app/.jars", "project_dir": "/app"}

    def begin_start(self) -> None:
        """Starts the container."""
        self.engine.call("start", self.name)

    def call(self, *arguments: str, timeout_s: float = START_S) -> subprocess.CompletedProcess[str]:
        """Runs `storekeeper ARGUMENTS` inside."""
        return self.engine.call(*self._command(*arguments), check=False, timeout_s=timeout_s)

    def begin(self, *arguments: str) -> None:
        """Begins `storekeeper ARGUMENTS` inside, and waits for nothing."""
        command = self._command(*arguments)
        self.engine.call(command[0], "--detach", *command[1:], check=False)

    def inside(self, *command: str) -> str:
        """What a command of root writes inside."""
        return self.engine.says("exec", "--user", "0", self.name, *command)

    def read(self, path: str) -> str:
        """The text of a file of the run directory."""
        # Root has no right here to read what is the user's alone.
        return self.engine.says("exec", "--user", str(USER), self.name, "cat", f"{self.run_dir}/{path}")

    def processes(self) -> Mapping[int, str]:
        """The command lines of its processes."""
        return self.engine.processes(self.name)

    def cut_power(self) -> None:
        """Ends all of its processes at once."""
        self.engine.call("kill", self.name, check=False)

    def mend(self) -> bool:
        """Starts the container if the engine doesn't, and applies the configuration. Returns whether all works."""
        if not self.engine.inspect(self.name)["State"]["Running"]:
            self.engine.call("start", self.name, check=False)
        return self.call("apply").returncode == 0

    def logs(self) -> str:
        """What the keeper has said."""
        if self.by_systemd:
            return self.inside("journalctl", "--no-pager", "--unit", "storekeeper", "--lines", "200")
        done = self.engine.call("logs", "--tail", "200", self.name, check=False)
        return done.stdout + done.stderr

    def _command(self, *arguments: str) -> list[str]:
        # The image's own variable has another value under systemd.
        settings = ("--env", f"STOREKEEPER_CONFIG={_CONFIG}", "--env", f"STOREKEEPER_RUN_DIR={self.run_dir}")
        program = "/opt/storekeeper/bin/storekeeper" if self.by_systemd else "storekeeper"
        return ["exec", "--user", str(USER), *settings, self.name, program, *arguments]


@contextmanager
def kept_platform(engine: Engine, image: str, folder: Path, *, by_systemd: bool) -> Iterator[KeptPlatform]:
    """A container that was made and not started, with a configuration of the app `pos`."""
    name = f"storekeeper-{'systemd' if by_systemd else 'alone'}-{folder.name}"
    configuration = folder / "etc"
    configuration.mkdir()
    platform = KeptPlatform(configuration, small_ports(), engine, name, by_systemd)
    platform.configure(apps=["spark_apps.pos:POS"])
    mounted = ["--volume", f"{configuration}:/etc/storekeeper:ro", "--volume", f"{JARS}:/app/.jars/broker:ro"]
    common = ["create", "--name", name, "--network", "host", *mounted]
    if by_systemd:
        systemd_image(engine)
        engine.call(*common, *_SYSTEMD_NEEDS, "--volume", f"{name}:/var/lib/storekeeper", SYSTEMD)
    else:
        (folder / "run").mkdir()
        shutil.chown(folder / "run", USER, USER)
        engine.call(
            *common, *_TIGHT, "--volume", f"{folder / 'run'}:/run/storekeeper",
            "--env", f"STOREKEEPER_CONFIG={_CONFIG}", image, "storekeeper", "supervise",
        )  # fmt: skip
    try:
        yield platform
    finally:
        engine.call("rm", "--force", "--volumes", name, check=False)
        engine.call("volume", "rm", name, check=False)


_TIGHT = (
    *("--user", f"{USER}:{USER}", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
    *("--tmpfs", "/tmp:mode=1777,exec", "--restart", "unless-stopped", "--stop-timeout", str(_STOP_S)),
)
_SYSTEMD_NEEDS = (
    *("--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined", "--cap-add", "SYS_ADMIN"),
    *("--cgroupns", "host", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup:rw", "--tmpfs", "/run", "--tmpfs", "/run/lock"),
    *("--tmpfs", "/tmp:mode=1777,exec", "--stop-timeout", str(_STOP_S)),
)


def systemd_image(engine: Engine) -> None:
    """Builds the image of a host, with our unit."""
    stand_ins = ROOT / "harness" / "stand_ins"
    packed = subprocess.run(
        ["tar", "-c", "-C", str(stand_ins), "Dockerfile.systemd", "-C", str(_UNIT.parent), _UNIT.name],
        check=True, capture_output=True,
    )  # fmt: skip
    engine.call(
        *("build", "--network", "host", "--tag", SYSTEMD, "--file", "Dockerfile.systemd", "-"),
        data=packed.stdout, timeout_s=1800,
    )  # fmt: skip
