"""The registry's errors, against a server with given answers. A real registry: see tests/integration."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness.certificates import make_authority
from storekeeper.errors import ConfigurationError, RetriableError, StateError
from storekeeper.schemas.avro import AvroSerde
from storekeeper.schemas.errors import (
    IncompatibleSchemaError,
    SchemaRegistryUnavailableError,
    UnknownSchemaError,
    UnregisteredSchemaError,
)
from storekeeper.schemas.registry import SchemaRegistry, registry_of
from tests.schemas.samples import AVRO

SCHEMA = AvroSerde(AVRO).schema()


class Answering(ThreadingHTTPServer):
    """Gives one answer to all requests, and keeps their paths and credentials."""

    answer: tuple[int, bytes] = (200, b"{}")

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str | None]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Answering

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append((self.path, self.headers.get("authorization")))
        status, body = self.server.answer
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 (the name that the server calls)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Answering]:
    with Answering() as answering:
        thread = threading.Thread(target=answering.serve_forever, args=(0.01,))
        thread.start()
        yield answering
        answering.shutdown()
        thread.join()


@pytest.fixture
def registry(server: Answering, tmp_path: Path) -> Iterator[SchemaRegistry]:
    path = tmp_path / "kafka.properties"
    address = f"schema.registry.url=http://127.0.0.1:{server.server_port}"
    path.write_text(f"{address}\nschema.registry.basic.auth.user.info=u:hunter2\n")
    path.chmod(0o600)
    with closing(SchemaRegistry(path)) as made:
        yield made


def error_of(status: int, code: int = 0) -> tuple[int, bytes]:
    return status, json.dumps({"error_code": code, "message": "because"}).encode()


def test_a_schema_is_asked_for_once_and_with_the_credentials(server: Answering, registry: SchemaRegistry) -> None:
    server.answer = 200, json.dumps({"schema": json.dumps(AVRO)}).encode()
    assert registry.schema(7) is registry.schema(7)
    ((path, credentials),) = server.asked
    assert path.startswith("/schemas/ids/7")
    assert credentials is not None
    assert credentials.startswith("Basic ")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (error_of(404, 40403), UnknownSchemaError),
        (error_of(401), ConfigurationError),
        (error_of(403), ConfigurationError),
        ((200, b"<html>"), SchemaRegistryUnavailableError),
    ],
)
def test_an_answer_that_is_no_schema(
    server: Answering, registry: SchemaRegistry, answer: tuple[int, bytes], kind: type[StateError]
) -> None:
    server.answer = answer
    with pytest.raises(kind) as error:
        registry.schema(7)
    assert "hunter2" not in str(error.value)


def test_a_subject_without_the_schema_is_named(server: Answering, registry: SchemaRegistry) -> None:
    server.answer = error_of(404, 40403)
    with pytest.raises(UnregisteredSchemaError, match=r"totals-value.*auto.register.schemas=true"):
        registry.id_of("totals-value", SCHEMA)
    assert registry.refusal("totals-value", SCHEMA) is None
    assert registry.ids("totals-value") == []


def test_a_refused_schema_is_named(server: Answering, registry: SchemaRegistry) -> None:
    server.answer = error_of(409, 409)
    with pytest.raises(IncompatibleSchemaError, match="totals-value refuses this schema: because"):
        registry.register("totals-value", SCHEMA)
    server.answer = error_of(422, 42201)
    with pytest.raises(ConfigurationError, match="totals-value"):
        registry.register("totals-value", SCHEMA)


def test_a_registry_that_can_not_answer_is_to_be_asked_again(
    server: Answering, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)  # the client's pauses between its own retries
    server.answer = error_of(503)
    for ask in (
        lambda: registry.schema(7),
        lambda: registry.id_of("s", SCHEMA),
        lambda: registry.register("s", SCHEMA),
    ):
        with pytest.raises(SchemaRegistryUnavailableError) as error:
            ask()
        assert isinstance(error.value, RetriableError)


def test_a_registry_that_is_not_there_is_to_be_asked_again(
    registry: SchemaRegistry, server: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    server.socket.close()
    with pytest.raises(SchemaRegistryUnavailableError, match="ConnectError"):
        registry.schema(7)


def test_a_certificate_that_is_not_trusted_is_to_be_corrected(server: Answering, tmp_path: Path) -> None:
    certificate, key = make_authority(tmp_path).issue("registry")
    secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secured.load_cert_chain(certificate, key)
    server.socket = secured.wrap_socket(server.socket, server_side=True)
    path = tmp_path / "kafka.properties"
    path.write_text(f"schema.registry.url=https://127.0.0.1:{server.server_port}\n")
    path.chmod(0o600)
    with (
        closing(SchemaRegistry(path)) as registry,
        pytest.raises(ConfigurationError, match=r"certificate.*isn't trusted.*schema\.registry\.ssl\.ca\.location"),
    ):
        registry.schema(7)


def test_a_process_has_one_view_of_a_registry(tmp_path: Path) -> None:
    assert registry_of(tmp_path / "a") is registry_of(tmp_path / "a")
    assert registry_of(None) is not registry_of(tmp_path / "a")
