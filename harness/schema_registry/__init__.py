"""A real schema registry for tests: Apicurio Registry, one JVM on a free port. It keeps everything in memory.

It is reached through TLS alone, with a certificate of an authority of its own, and takes one user with a password. It
has no list of users: it gets a token for each user and password from an issuer, and asks the issuer's key.
"""

from __future__ import annotations

import datetime as dt
import ssl
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from harness.authority import Authority, authority_pems, issue, new_authority
from harness.ports import free_ports
from harness.token_issuer import SECRET, TokenIssuer
from harness.waiting import eventually

JARS = Path(__file__).resolve().parents[2] / ".jars" / "schema-registry"
_QUICK_START = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_START_TIMEOUT_S = 120
_API = "/apis/ccompat/v7"
_USER = "storekeeper"


@dataclass(slots=True)
class RegistryProcess:
    """One registry process.

    Attributes:
        folder: its log, its certificate and the files for its clients.
        port: where it listens.
        issuer: checks its user's password.
    """

    folder: Path
    port: int
    issuer: TokenIssuer = field(default_factory=TokenIssuer)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def client(self) -> dict[str, str]:
        """The settings of Confluent's client."""
        return self.client_at(self.port)

    def client_at(self, port: int) -> dict[str, str]:
        """The same at another port, that of a proxy."""
        return {
            "url": f"https://127.0.0.1:{port}{_API}",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "basic.auth.user.info": f"{_USER}:{SECRET}",
        }

    def start(self) -> None:
        """Starts the process and waits until it answers."""
        options = [f"-D{name}={value}" for name, value in self._options().items()]
        with (self.folder / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["java", *_QUICK_START, *options, "-jar", str(program())],
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
        client = {**self.client_at(port or self.port), "auto.register.schemas": str(register).lower()}
        return self.file_of(f"registry-{register}-{port}", client)

    def file_of(self, name: str, client: Mapping[str, str]) -> Path:
        """Such a file with other settings of the client."""
        path = self.folder / f"{name}.properties"
        path.touch(0o600)
        path.write_text("".join(f"schema.registry.{key}={value}\n" for key, value in client.items()))
        return path

    def _options(self) -> dict[str, object]:
        return {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.ssl-port": self.port,
            "quarkus.http.insecure-requests": "disabled",
            "quarkus.http.ssl.certificate.files": self.folder / "registry.pem",
            "quarkus.http.ssl.certificate.key-files": self.folder / "registry.key",
            "registry.auth.enabled": "true",
            "registry.auth.basic-auth-client-credentials.enabled": "true",
            "registry.auth.token.endpoint": f"{self.issuer.url}/token",
            "quarkus.oidc.auth-server-url": self.issuer.url,
            "quarkus.oidc.discovery-enabled": "false",
            "quarkus.oidc.jwks-path": "/keys",
        }

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "registry.log").read_text()[-2000:]
        trust = ssl.create_default_context(cafile=self.client["ssl.ca.location"])
        try:
            answer = httpx2.get(f"{self.client['url']}/subjects", auth=(_USER, SECRET), verify=trust, timeout=10)
        except httpx2.TransportError:
            return False
        return answer.is_success


def program() -> Path | None:
    """The registry's jar; None if it was not fetched."""
    return next(JARS.glob("*-runner.jar"), None)


def start_registry(folder: Path) -> RegistryProcess:
    """Starts an empty registry. The caller stops it."""
    folder.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    _certify(folder, new_authority("ca of the registry", dt.datetime.now(dt.UTC)))
    registry = RegistryProcess(folder, port)
    try:
        registry.start()
    except BaseException:
        registry.stop()
        raise
    return registry


def _certify(folder: Path, authority: Authority) -> None:
    certificate, key = issue(authority, "registry", ["127.0.0.1"], dt.datetime.now(dt.UTC))
    (folder / "ca.pem").write_bytes(authority_pems(authority)[0])
    (folder / "registry.pem").write_bytes(certificate)
    (folder / "registry.key").touch(0o600)
    (folder / "registry.key").write_bytes(key)
