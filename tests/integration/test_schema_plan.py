"""`storekeeper plan` beside a real schema registry: a compatible schema passes, an incompatible one is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from typer.testing import CliRunner

from harness.schema_registry import RegistryProcess
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import topology_app
from storekeeper.cli.entry import app
from storekeeper.generations.changes.contract import Description
from storekeeper.generations.planning import upgrade_check
from storekeeper.schemas.avro import AvroSerde
from storekeeper.schemas.protobuf import ProtobufSerde
from storekeeper.schemas.registry import registry_of
from storekeeper.topology import StreamsBuilder
from tests.schemas.samples import AVRO, AVRO_WITH_REQUIRED_TILL, AVRO_WITH_TILL, message, proto

pytestmark = [pytest.mark.broker, pytest.mark.long("tests/generations/planning/test_schemas.py")]


VERSIONS: dict[str, tuple[Any, Any, Any]] = {
    "avro": (AvroSerde(AVRO), AvroSerde(AVRO_WITH_TILL), AvroSerde(AVRO_WITH_REQUIRED_TILL)),
    "protobuf": (
        ProtobufSerde(message(), proto=proto()),
        ProtobufSerde(message(tills=True), proto=proto(tills=True)),
        ProtobufSerde(message(cents=True), proto=proto(cents=True)),
    ),
}
"""The first, a compatible and an incompatible version of each format."""


@pytest.mark.parametrize("kind", VERSIONS)
def test_a_changed_schema(
    kind: str, schema_registry: RegistryProcess, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    request.addfinalizer(registry_of(schema_registry.client_file()).close)
    first, compatible, incompatible = VERSIONS[kind]
    subject = f"planned-{kind}-value"
    monkeypatch.setenv("STOREKEEPER_KAFKA_PROPERTIES", str(schema_registry.client_file()))
    monkeypatch.setenv("STOREKEEPER_APPS", "pos")
    (tmp_path / "nothing.json").write_bytes(Description(0, {}).encode())

    def planned(serde: Any) -> tuple[int, dict[str, Any]]:
        def describe(streams: StreamsBuilder, _: AppSettings) -> None:
            streams.stream("planned-in", str).map_values(lambda _: None).to(f"planned-{kind}", values=serde)

        with monkeypatch.context() as patch:
            patch.setattr(upgrade_check, "APPS", {"pos": topology_app("pos", describe, title="planned")})
            done = CliRunner().invoke(app, ["plan", "--output", "json", "--against", str(tmp_path / "nothing.json")])
        changes = {change["store"]: change for change in json.loads(done.stdout)["changes"]}
        return done.exit_code, changes[subject]

    assert planned(first)[1]["verdict"] == "new"
    client = SchemaRegistryClient(schema_registry.client)
    request.addfinalizer(client.close)
    client.register_schema(subject, first.schema())
    client.set_compatibility(subject, "BACKWARD")
    assert planned(first) == (0, {**planned(first)[1], "verdict": "unchanged"})
    assert planned(compatible)[1]["verdict"] == "new"
    code, change = planned(incompatible)
    assert (code, change["verdict"]) == (4, "breaks")
    assert f"subject {subject} refuses this schema: its level of compatibility is BACKWARD" in change["details"][0]
    assert client.get_versions(subject) == [1]
