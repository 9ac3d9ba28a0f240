"""A real Unity Catalog for tests: its open source server, one JVM on a free port. It keeps everything in memory.

`make setup-unity UNITY=<checkout>` builds it: no registry that `make` asks has it.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from harness.ports import free_ports
from harness.storage.place import FETCHED
from harness.waiting import eventually

CATALOGUE, SCHEMA = "shop", "tables"
_API = "/api/2.1/unity-catalog"
_BUILT = FETCHED / "unity"
_QUICK_START = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_START_TIMEOUT_S = 180
_PATIENCE_S = 60
_PROPERTIES = {
    "server": "server.env=dev\nserver.authorization=disable\nserver.cookie-timeout=P5D\n",
    "hibernate": (
        "hibernate.connection.driver_class=org.h2.Driver\n"
        "hibernate.connection.url=jdbc:h2:mem:unity;DB_CLOSE_DELAY=-1\n"
        "hibernate.hbm2ddl.auto=update\n"
    ),
}


def _two_free_ports() -> int:
    """The first of two free ports in a row: the server takes the next one, too."""
    while True:
        first, second = free_ports(2)
        if second == first + 1:
            return first


@dataclass(slots=True)
class UnityProcess:
    """One server, with one schema. Its files are in `folder`."""

    folder: Path
    port: int = field(default_factory=_two_free_ports)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """For `storekeeper tables --register --unity`."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts the process, waits until it answers, and makes the schema."""
        conf = self.folder / "etc" / "conf"
        conf.mkdir(parents=True)
        for name, text in _PROPERTIES.items():
            (conf / f"{name}.properties").write_text(text)
        classpath = f"{_BUILT / 'classes'}:{(_BUILT / 'classpath').read_text().strip()}"
        command = ["java", *_QUICK_START, "-cp", classpath, "io.unitycatalog.server.UnityCatalogServer"]
        with (self.folder / "unity.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--port", str(self.port)], stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )
        eventually(self._answers, _START_TIMEOUT_S, "Unity Catalog answers")
        self.ask("POST", "/catalogs", {"name": CATALOGUE})
        self.ask("POST", "/schemas", {"name": SCHEMA, "catalog_name": CATALOGUE})

    def stop(self) -> None:
        """Ends the process with KILL: it has nothing to keep."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def ask(self, method: str, path: str, body: object = None) -> httpx2.Response:
        """The answer of the API, which must be a good one."""
        answer = httpx2.request(method, f"{self.address}{_API}{path}", json=body, timeout=_PATIENCE_S)
        assert answer.is_success, answer.text
        return answer

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "unity.log").read_text()[-2000:]
        try:
            return httpx2.get(f"{self.address}{_API}/catalogs", timeout=_PATIENCE_S).is_success
        except httpx2.TransportError:
            return False


def is_built() -> bool:
    """Whether the server is there."""
    return (_BUILT / "classpath").exists()
