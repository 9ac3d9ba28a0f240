"""A real schema registry for tests: Apicurio Registry, one JVM on a free port. It keeps everything in memory."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from harness.ports import free_ports
from harness.waiting import eventually

JARS = Path(__file__).resolve().parents[2] / ".jars" / "schema-registry"
_QUICK_START = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_START_TIMEOUT_S = 120
_API = "/apis/ccompat/v7"


@dataclass(slots=True)
class RegistryProcess:
    """One registry process.

    Attributes:
        folder: its log and the file for its clients.
        port: where it listens.
    """

    folder: Path
    port: int
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """The base address of Confluent's API."""
        return self.url_at(self.port)

    def url_at(self, port: int) -> str:
        """The same at another port, that of a proxy."""
        return f"http://127.0.0.1:{port}{_API}"

    def start(self) -> None:
        """Starts the process and waits until it answers."""
        places = ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self.port}"]
        with (self.folder / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["java", *_QUICK_START, *places, "-jar", str(program())],
                stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        eventually(self._answers, _START_TIMEOUT_S, "the schema registry answers")

    def stop(self) -> None:
        """Ends the process with KILL: it has nothing to keep."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def client_file(self, *, register: bool = False, port: int | None = None) -> Path:
        """The file that STOREKEEPER_KAFKA_PROPERTIES names, with the port of a proxy if one is given."""
        port = port or self.port
        path = self.folder / f"registry-{register}-{port}.properties"
        path.touch(0o600)
        registers = f"schema.registry.auto.register.schemas={str(register).lower()}"
        path.write_text(f"schema.registry.url={self.url_at(port)}\n{registers}\n")
        return path

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "registry.log").read_text()[-2000:]
        try:
            return httpx2.get(f"{self.url}/subjects", timeout=10).is_success
        except httpx2.TransportError:
            return False


def program() -> Path | None:
    """The registry's jar; None if it was not fetched."""
    return next(JARS.glob("*-runner.jar"), None)


def start_registry(folder: Path) -> RegistryProcess:
    """Starts an empty registry. The caller stops it."""
    folder.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    registry = RegistryProcess(folder, port)
    try:
        registry.start()
    except BaseException:
        registry.stop()
        raise
    return registry
