"""The compose file, up: a copy with free ports, as another platform may have those that it names."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from harness.container_engine import Engine
from harness.container_images import NOT_IN_DEBIAN, OURS, can_be_had, provide
from harness.ports import free_ports
from harness.project import ROOT
from harness.waiting import eventually
from tests.containers.kept_platform import USER
from tests.ops.containers.compose_file import compose
from tests.ops.containers.prepared import prepared

UP_S = 1800


@dataclass
class Composed:
    """What the compose file runs.

    Attributes:
        engine: the engine.
        command: what runs compose files.
        project: the name of the compose project.
        folder: where the copy of the file is.
        services: the file's services, but for those whose image can't be had.
        ports: what is published, by service.
    """

    engine: Engine
    command: list[str]
    project: str
    folder: Path
    services: dict[str, dict[str, Any]]
    ports: dict[str, int]

    def compose(self, *arguments: str) -> str:
        """What `docker compose ARGUMENTS` writes."""
        done = self._call(*arguments)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    def begin(self) -> bool:
        """Starts what doesn't run. Returns whether all was begun."""
        return self._call("up", "--detach").returncode == 0

    def containers(self, service: str) -> list[str]:
        """The containers of a service, by their ids, ended ones too."""
        labels = (f"project={self.project}", f"service={service}")
        chosen = [word for label in labels for word in ("--filter", f"label=com.docker.compose.{label}")]
        return self.engine.says("ps", "--all", "--quiet", *chosen).split()

    def container(self, service: str) -> str:
        """The one container of a service."""
        (only,) = self.containers(service)
        return only

    def await_healthy(self, services: Collection[str] | None = None) -> None:
        """Waits until services are healthy, and those that run once have ended well."""
        left = set(self.services if services is None else services)

        def healthy() -> bool:
            left.difference_update([name for name in left if self._is_well(name)])
            return not left

        try:
            eventually(healthy, UP_S, "every service is healthy")
        except AssertionError as error:
            for name in left:
                error.add_note(f"{name}: {self.compose('logs', '--tail', '30', name)}")
            raise

    def inside(self, *arguments: str) -> str:
        """What `compose_loop ARGUMENTS` writes, in a container of its own within the network."""
        done = self.engine.call("run", "--rm", *self._client(), *arguments, check=False, timeout_s=3600)
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    def differences(self, purchases: int) -> list[str]:
        """What differs from what so many purchases give."""
        said = json.loads(self.inside("check", str(purchases)).splitlines()[-1])
        assert min(said["shipments"], said["snapshot"], said["export"]) > 0
        found: list[str] = said["differences"]
        return found

    @contextmanager
    def reads(self) -> Iterator[dict[str, Any]]:
        """Asks two nodes again and again. The counts and failures are there when the block has ended."""
        told: dict[str, Any] = {}
        name = self.engine.says("run", "--detach", *self._client(), "ask")
        try:
            eventually(lambda: "it asks" in self.engine.says("logs", name), UP_S, "it asks")
            yield told
            self.engine.call("stop", "--time", "60", name)
            told |= json.loads(self.engine.says("logs", name).splitlines()[-1])
        finally:
            self.engine.call("rm", "--force", name)

    def _client(self) -> list[str]:
        secrets = self.folder / ".containers" / "secrets"
        return [
            *("--network", f"{self.project}_inside", "--user", f"{USER}:{USER}"),
            *("--volume", f"{ROOT}:/repo:ro", "--workdir", "/tmp", "--env", "PYTHONPATH=/repo"),
            *("--volume", f"{self.folder}/.containers/run:/run/storekeeper"),
            *("--volume", f"{secrets}/reader-token:/run/secrets/reader_token:ro"),
            *("--volume", f"{secrets}/ca.pem:/run/secrets/ca:ro"),
            *("--env", "STOREKEEPER_CONFIG=/repo/storekeeper.toml", "--env", "STOREKEEPER_KAFKA_BOOTSTRAP=kafka:9092"),
            *(OURS, "python", "-m", "tests.containers.compose_loop"),
        ]

    def use_image(self, service: str, image: str) -> None:
        """Lets one service run another image."""
        path = self.folder / "docker-compose.yaml"
        document = yaml.safe_load(path.read_text())
        document["services"][service]["image"] = image
        path.write_text(yaml.safe_dump(document))
        self.compose("up", "--detach", "--no-deps", service)

    def _call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, "-p", self.project, "--env-file", ".containers/.env", *arguments],
            cwd=self.folder, env=self.engine.environment, capture_output=True, text=True, timeout=UP_S, check=False,
        )  # fmt: skip

    def _is_well(self, service: str) -> bool:
        found = [self.engine.inspect(name)["State"] for name in self.containers(service)]
        if "healthcheck" in self.services[service]:
            return bool(found) and all(state["Health"]["Status"] == "healthy" for state in found)
        return bool(found) and all((state["Status"], state["ExitCode"]) == ("exited", 0) for state in found)


@contextmanager
def composed(engine: Engine, folder: Path) -> Iterator[Composed]:
    """All services of the file, healthy.

    Raises:
        NoEngineError: there is no compose, or an image that can be had in no way.
    """
    command = engine.compose_command()
    provide(engine)
    absent = {image for image in NOT_IN_DEBIAN if not can_be_had(engine, image)}
    document = {name: value for name, value in compose().items() if not name.startswith("x-") and name != "name"}
    services = {name: dict(service) for name, service in document["services"].items() if service["image"] not in absent}
    ports = {}
    for name, service in services.items():
        service.pop("build", None)
        for port in service.get("ports", []):
            (ports[name],) = free_ports(1)
            service["ports"] = [re.sub(r":\d+:", f":{ports[name]}:", port)]
    (folder / "docker-compose.yaml").write_text(yaml.safe_dump({**document, "services": services}))
    (folder / "storekeeper").symlink_to(ROOT / "storekeeper")
    made = prepared(folder / ".containers")
    for path in (made, *made.rglob("*")):
        shutil.chown(path, USER, USER)
    own = {"STOREKEEPER_UID": USER, "STOREKEEPER_GID": USER}
    kept = [line for line in (made / ".env").read_text().splitlines() if line.partition("=")[0] not in own]
    (made / ".env").write_text("\n".join([*kept, *(f"{name}={value}" for name, value in own.items())]) + "\n")
    running = Composed(
        engine, command, f"storekeeper{folder.name.replace('-', '').replace('_', '')}", folder, services, ports
    )
    try:
        # On a machine with much else to do a service may be told unhealthy before it is healthy.
        eventually(running.begin, UP_S, "every container has been started")
        running.await_healthy()
        yield running
    finally:
        running.compose("down", "--volumes")
