"""A real schema registry behind TLS with an authority of its own, and a password. The other tests use it as well."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from harness.authority import authority_pems, new_authority
from harness.schema_registry import RegistryProcess
from storekeeper.errors import ConfigurationError
from storekeeper.schemas.avro import AvroSerde
from storekeeper.schemas.registry import SchemaRegistry
from tests.schemas.samples import AVRO

pytestmark = [pytest.mark.broker, pytest.mark.long("tests/schemas/test_registry.py")]

SCHEMA = AvroSerde(AVRO).schema()


@contextmanager
def asked(process: RegistryProcess, name: str, without: str = "", **more: str) -> Iterator[SchemaRegistry]:
    """The registry as a process sees it whose properties are these."""
    client = {key: value for key, value in process.client.items() if key != without}
    named = {key.replace("_", "."): value for key, value in more.items()}
    with closing(SchemaRegistry(process.file_of(name, {**client, **named}))) as registry:
        yield registry


def test_what_one_process_registers_another_finds(schema_registry: RegistryProcess) -> None:
    with asked(schema_registry, "writer") as writer, asked(schema_registry, "reader") as reader:
        made = writer.register("secured-value", SCHEMA)
        assert reader.id_of("secured-value", SCHEMA) == made
        assert reader.ids("secured-value") == [made]
        assert reader.schema(made).schema_str is not None


@pytest.mark.parametrize(("without", "more"), [("basic.auth.user.info", {}), ("", {"basic_auth_user_info": "u:wrong"})])
def test_a_wrong_password_is_to_be_corrected(
    schema_registry: RegistryProcess, without: str, more: dict[str, str]
) -> None:
    with (
        asked(schema_registry, "stranger", without, **more) as registry,
        pytest.raises(ConfigurationError, match=r"refuses these credentials \(401\)"),
    ):
        registry.ids("secured-value")


def test_an_unknown_authority_is_to_be_corrected(schema_registry: RegistryProcess) -> None:
    foreign = schema_registry.folder / "foreign.pem"
    foreign.write_bytes(authority_pems(new_authority("foreign", dt.datetime.now(dt.UTC)))[0])
    for name, registry in {
        "untrusting": asked(schema_registry, "untrusting", "ssl.ca.location"),
        "foreign": asked(schema_registry, "foreign", ssl_ca_location=str(foreign)),
    }.items():
        with registry as found, pytest.raises(ConfigurationError, match=r"certificate.*ssl\.ca\.location") as error:
            found.ids("secured-value")
        assert "doesn't answer" not in str(error.value), name
