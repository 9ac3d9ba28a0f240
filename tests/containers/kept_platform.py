"""A small platform that `storekeeper up --foreground` keeps alive: as a container's command, or as a unit of systemd.

Both are containers on the network of this machine, so that tests reach the broker and the nodes as any client.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.broker import JARS
from harness.container_engine import Engine
from harness.ports import free_ports
from harness.project import ROOT
from harness.waiting import eventually

USER = 10001
SYSTEMD = "storekeeper-systemd"
"""The image of a host with systemd."""
START_S = 900
"""On a slow machine that has other things to do."""
_CONFIG = "/etc/storekeeper/storekeeper.toml"
_UNIT = ROOT / "storekeeper" / "ops" / "systemd" / "storekeeper.service"
_STOP_S = 300


@dataclass
class KeptPlatform:
    """A platform in a container. Its configuration is a file on this machine.

    Attributes:
        engine: the engine.
        name: of the container.
        folder: of the configuration, on this machine.
        by_systemd: whether process 1 is systemd.
        ports: of the platform.
    """

    engine: Engine
    name: str
    folder: Path
    by_systemd: bool
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def run_dir(self) -> str:
        """Inside."""
        return "/var/lib/storekeeper" if self.by_systemd else "/run/storekeeper"

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        return f"127.0.0.1:{self.ports['kafka_port']}"

    @property
    def node(self) -> str:
        """The first node's address."""
        return f"http://127.0.0.1:{self.ports['node_port']}"

    def configure(self, *, apps: Sequence[str], nodes: Sequence[str] = ("a",), **settings: Any) -> None:
        """Writes the configuration."""
        values: dict[str, Any] = {
            "run_dir": self.run_dir,
            "jars_dir": "/app/.jars",
            "project_dir": "/app",
            "apps": list(apps),
            "node_names": list(nodes),
            "start_timeout_s": START_S,
            "trigger_interval_ms": 200,
            **self.ports,
            **settings,
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        (self.folder / "storekeeper.toml").write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        """Starts the container and waits until the platform works."""
        self.engine.call("start", self.name)
        self.await_working()

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

    def await_working(self) -> None:
        """Waits until every process is healthy."""

        def works() -> bool:
            return self.call("status", "--output", "json").returncode == 0

        try:
            eventually(works, START_S, f"the platform of {self.name} works")
        except AssertionError as error:
            error.add_note(self.call("status").stdout)
            error.add_note(self.logs()[-5000:])
            raise

    def logs(self) -> str:
        """What the keeper has said."""
        if self.by_systemd:
            return self.inside("journalctl", "--no-pager", "--unit", "storekeeper", "--lines", "200")
        done = self.engine.call("logs", "--tail", "200", self.name, check=False)
        return done.stdout + done.stderr

    def is_running(self) -> bool:
        """Whether the container runs."""
        return bool(self.engine.inspect(self.name)["State"]["Running"])

    def _command(self, *arguments: str) -> list[str]:
        # The image's own variable has another value under systemd.
        settings = ("--env", f"STOREKEEPER_CONFIG={_CONFIG}", "--env", f"STOREKEEPER_RUN_DIR={self.run_dir}")
        program = "/opt/storekeeper/bin/storekeeper" if self.by_systemd else "storekeeper"
        return ["exec", "--user", str(USER), *settings, self.name, program, *arguments]


@contextmanager
def kept_platform(engine: Engine, image: str, folder: Path, *, by_systemd: bool) -> Iterator[KeptPlatform]:
    """A container that was made and not started, with a configuration of the app `pos`."""
    name = f"storekeeper-{'systemd' if by_systemd else 'supervise'}-{folder.name}"
    configuration = folder / "etc"
    configuration.mkdir()
    platform = KeptPlatform(engine, name, configuration, by_systemd, _ports())
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
            "--env", f"STOREKEEPER_CONFIG={_CONFIG}", image, "storekeeper", "up", "--foreground",
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


def _ports() -> dict[str, int]:
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
