"""Asks a schema registry by Confluent's API. Ids and schemas are immutable, so each is requested once.

Where the schema registry is and how to sign in: the lines of the file of Kafka's properties that begin so.

`schema.registry.url` is the base address of the registry's Confluent API. The other names are those of Confluent's
client behind `schema.registry.`, such as `schema.registry.basic.auth.user.info` or `schema.registry.ssl.ca.location`.
With `schema.registry.auto.register.schemas=true` apps register the schemas that they write with when they start.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from storekeeper.errors import ConfigurationError
from storekeeper.kafka.properties import registry_properties
from storekeeper.loopback import is_loopback
from storekeeper.schemas.errors import (
    IncompatibleSchemaError,
    SchemaRegistryUnavailableError,
    UnknownSchemaError,
    UnregisteredSchemaError,
)

_REGISTERS = "auto.register.schemas"
_SIGNS_IN = ("basic.auth.", "bearer.auth.")
_DEFAULTS = {"timeout": 5, "max.retries": 2, "retries.wait.ms": 100, "retries.max.wait.ms": 2000}
"""A registry that doesn't answer is given up after about 15 s."""


@dataclass(frozen=True, slots=True)
class RegistryProperties:
    """How to ask the registry. `client` is for Confluent's client. `registers`: apps register what they write with."""

    client: dict[str, Any]
    registers: bool


def read_registry_properties(path: Path) -> RegistryProperties:
    """Reads the file.

    Raises:
        ConfigurationError: it can't be read or isn't private; it names no registry; or credentials would cross a
            network without TLS.
    """
    properties = registry_properties(path)
    registers = properties.pop(_REGISTERS, "false")
    if registers not in {"true", "false"}:
        raise ConfigurationError(f"{path}: schema.registry.{_REGISTERS} must be true or false")
    _check(path, properties)
    client = {name: int(value) if value.isdecimal() else value for name, value in properties.items()}
    return RegistryProperties({**_DEFAULTS, **client}, registers == "true")


def _check(path: Path, properties: dict[str, str]) -> None:
    if "url" not in properties:
        raise ConfigurationError(f"{path} has no schema.registry.url, which values by schemas need")
    signs_in = any(name.startswith(_SIGNS_IN) for name in properties)
    for address in properties["url"].split(","):
        url = urlsplit(address.strip())
        if url.scheme not in {"http", "https"} or not url.hostname or url.username:
            msg = f"{path}: schema.registry.url must be http(s)://host:port; credentials are properties of their own"
            raise ConfigurationError(msg)
        if signs_in and url.scheme == "http" and not is_loopback(url.hostname):
            msg = f"{path}: the registry's credentials would cross the network unencrypted: use an https address"
            raise ConfigurationError(msg)


if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

T = TypeVar("T")

_SIGNED_IN = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


class SchemaRegistry:
    """One registry. It connects at its first use. Thread-safe.

    Args:
        file: that of Kafka's properties; see `registry_properties`. None: every use raises.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._connected: tuple[SchemaRegistryClient, RegistryProperties] | None = None
        self._schemas: dict[int, Schema] = {}
        self._parsed: dict[tuple[int, object], Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process it is that process's view of the same registry."""
        return registry_of, (self._file,)

    def connect(self) -> None:
        """Reads the file and makes the client; asks nothing yet.

        Raises:
            ConfigurationError: no registry is set, the file can't work, or the packages are missing.
        """
        self._connection()

    def close(self) -> None:
        """Closes its connections; it opens new ones if it is used again."""
        with self._lock:
            connected, self._connected = self._connected, None
        if connected is not None:
            connected[0].close()

    @property
    def registers(self) -> bool:
        """Whether apps register what they write with."""
        return self._connection()[1].registers

    def schema(self, schema_id: int) -> Schema:
        """The schema of an id.

        Raises:
            UnknownSchemaError: there is none.
            SchemaRegistryUnavailableError: the registry doesn't answer.
            ConfigurationError: no registry is set, or it refuses the credentials.
        """
        schema = self._schemas.get(schema_id)
        if schema is None:
            with self._asking(f"schema {schema_id}", missing=UnknownSchemaError(_no_schema(schema_id))):
                schema = self._serialized(schema_id)
            self._schemas[schema_id] = schema
        return schema

    def parsed(self, schema_id: int, parse: Callable[[Schema, SchemaRegistry], T]) -> T:
        """What a function of a module makes of an id's schema, made once. Raises as `schema` and the function do."""
        key = (schema_id, parse)
        if key not in self._parsed:
            self._parsed[key] = parse(self.schema(schema_id), self)
        parsed: T = self._parsed[key]
        return parsed

    def references(self, schema: Schema) -> Iterator[tuple[str, Schema]]:
        """The schemas that a schema refers to, and their names there, each before those that refer to it.

        Raises as `schema`.
        """
        for reference in schema.references or []:
            version = f"version {reference.version} of {reference.subject}"
            with self._asking(version, missing=UnknownSchemaError(f"the schema registry has no {version}")):
                registered = self._client.get_version(reference.subject, reference.version, deleted=True).schema
            yield from self.references(registered)
            yield reference.name, registered

    def id_of(self, subject: str, schema: Schema) -> int:
        """The id of a subject's schema.

        Raises:
            UnregisteredSchemaError: the subject doesn't have it.
            SchemaRegistryUnavailableError, ConfigurationError: as `schema`.
        """
        missing = UnregisteredSchemaError(
            f"subject {subject} doesn't have the schema that this app writes with: register it there, or set "
            "schema.registry.auto.register.schemas=true, so that apps register theirs when they start"
        )
        with self._asking(f"subject {subject}", missing=missing):
            return int(self._client.lookup_schema(subject, schema).schema_id)

    def register(self, subject: str, schema: Schema) -> int:
        """Registers a schema, if the subject doesn't have it; returns its id.

        Raises:
            IncompatibleSchemaError: the registry refuses it.
            SchemaRegistryUnavailableError, ConfigurationError: as `schema`.
        """
        with self._asking(f"subject {subject}"):
            return int(self._client.register_schema(subject, schema))

    def refusal(self, subject: str, schema: Schema) -> str | None:
        """Why the registry would refuse a schema; None if it would take it. Registers nothing.

        Raises:
            SchemaRegistryUnavailableError, ConfigurationError: as `schema`.
        """
        try:
            with self._asking(f"subject {subject}", missing=_NoSubjectError()):
                if self._client.test_compatibility(subject, schema):
                    return None
        except _NoSubjectError:
            return None
        level = self._level(subject)
        return f"subject {subject} refuses this schema: its level of compatibility is {level}"

    def ids(self, subject: str) -> Sequence[int]:
        """The ids of a subject's schemas; none if there is no such subject. Raises as `refusal`."""
        try:
            with self._asking(f"subject {subject}", missing=_NoSubjectError()):
                versions = self._client.get_versions(subject)
                return [int(self._client.get_version(subject, number).schema_id) for number in versions]
        except _NoSubjectError:
            return []

    def _level(self, subject: str) -> str:
        for scope in (subject, None):
            with suppress(_NoSubjectError), self._asking("the level", missing=_NoSubjectError()):
                config = self._client.get_config(scope)
                level = config.compatibility_level or config.compatibility
                if level is not None:
                    return str(getattr(level, "value", level))
        return "unknown"

    def _serialized(self, schema_id: int) -> Schema:
        """The schema; one of Protobuf as a descriptor, where the registry can give that."""
        schema = self._client.get_schema(schema_id)
        if schema.schema_type == "PROTOBUF":
            return self._client.get_schema(schema_id, fmt="serialized")
        return schema

    @property
    def _client(self) -> SchemaRegistryClient:
        return self._connection()[0]

    def _connection(self) -> tuple[SchemaRegistryClient, RegistryProperties]:
        with self._lock:
            if self._connected is None:
                self._connected = self._connect()
            return self._connected

    def _connect(self) -> tuple[SchemaRegistryClient, RegistryProperties]:
        if self._file is None:
            raise ConfigurationError(
                "values by schemas of a registry need a file with `schema.registry.url` in "
                "`kafka_properties`, and it is not set"
            )
        properties, library = read_registry_properties(self._file), _library()
        try:
            return library.SchemaRegistryClient(properties.client), properties
        except (OSError, TypeError, ValueError) as error:
            msg = f"{self._file}: the properties of the schema registry can't be used: {error}"
            raise ConfigurationError(msg) from error

    @contextmanager
    def _asking(self, what: str, *, missing: Exception | None = None) -> Iterator[None]:
        """Turns the client's errors into those of this module."""
        self._connection()
        try:
            yield
        except Exception as error:
            translated = _translated(error, what, missing)
            if translated is None:
                raise
            raise translated from error


class MemoryRegistry(SchemaRegistry):
    """A registry in memory for tests: it registers what is written with at its first use."""

    def __init__(self) -> None:
        super().__init__(None)

    def _connect(self) -> tuple[SchemaRegistryClient, RegistryProperties]:
        properties = RegistryProperties({"url": "mock://memory"}, registers=True)
        return _library().SchemaRegistryClient.new_client(properties.client), properties

    def id_of(self, subject: str, schema: Schema) -> int:
        """As there; registers the schema."""
        return self.register(subject, schema)


@lru_cache(maxsize=8)
def registry_of(file: Path | None) -> SchemaRegistry:
    """This process's view of the registry that a file names. It connects at its first use."""
    return SchemaRegistry(file)


class _NoSubjectError(Exception):
    """The subject, or its level, is not there."""


def _no_schema(schema_id: int) -> str:
    return f"the schema registry has no schema {schema_id}"


def _translated(error: Exception, what: str, missing: Exception | None) -> Exception | None:
    """The error of this module for one of the client's; None if it is not an error of the client."""
    if isinstance(error, _library().SchemaRegistryError):
        return _refused(error, what, missing)
    no_token = importlib.import_module("confluent_kafka.schema_registry.error").OAuthTokenError
    if "certificate verify failed" in str(error):
        return ConfigurationError(
            f"the certificate of the schema registry isn't trusted ({error}): name the authority that signed it in "
            "schema.registry.ssl.ca.location, among Kafka's properties"
        )
    if isinstance(error, importlib.import_module("httpx2").TransportError | no_token):
        message = f"the schema registry doesn't answer ({type(error).__name__}): {what} isn't known"
        return SchemaRegistryUnavailableError(message)
    if isinstance(error, ValueError):
        message = f"what answers at the schema registry's address writes no JSON: {what} isn't known"
        return SchemaRegistryUnavailableError(message)
    return None


def _refused(error: Any, what: str, missing: Exception | None) -> Exception:
    status, message = error.http_status_code, str(error.error_message)[:500]
    if status == HTTPStatus.NOT_FOUND and missing is not None:
        return missing
    if status == HTTPStatus.CONFLICT:
        return IncompatibleSchemaError(f"{what} refuses this schema: {message}")
    if status in _SIGNED_IN:
        return ConfigurationError(
            f"the schema registry refuses these credentials ({status}): correct Kafka's properties"
        )
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        message = f"the schema registry can't answer about {what} now ({status}): {message}"
        return SchemaRegistryUnavailableError(message)
    return ConfigurationError(f"the schema registry refuses {what} ({status}): {message}")


def _library() -> Any:
    """Confluent's client. Loaded at its first use: specs of apps are imported where none is."""
    try:
        return importlib.import_module("confluent_kafka.schema_registry")
    except ImportError as error:
        msg = f'values by schemas of a registry need more packages: pip install "storekeeper[registry]" ({error})'
        raise ConfigurationError(msg) from error
