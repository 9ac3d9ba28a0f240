"""Nodes that serve values by schemas of a real registry: as JSON where the store says so, as bytes where not."""

from __future__ import annotations

import base64
from decimal import Decimal
from pathlib import Path

import httpx2
import orjson
import pytest

from harness.broker import Broker
from harness.node_process import COMPACTED, NodeProcess, make_nodes, started, write
from harness.schema_registry import RegistryProcess
from harness.waiting import eventually
from storekeeper.schemas.avro import AvroSerde
from storekeeper.schemas.bound import bound_to
from storekeeper.schemas.json_schema import JsonSchemaSerde
from storekeeper.schemas.protobuf import ProtobufSerde
from storekeeper.schemas.registry import SchemaRegistry
from tests.schemas.samples import AVRO, AVRO_WITH_TILL, JSON, Purchase, message

pytestmark = [pytest.mark.broker, pytest.mark.long("tests/node/query/reads/test_schema_values.py")]

LOG = "schema-values"
PURCHASE = Purchase("7", Decimal("1.2500"))
SERVED = f"shown={LOG}:keyvalue:schemas,raw={LOG}-raw:keyvalue,best={LOG}-best:ranked:amount:schemas"


def value(node: NodeProcess, key: str) -> bytes:
    return node.answer(f"/state/keyvalue/shown/{key}").content


def _refused(node: NodeProcess, path: str) -> httpx2.Response | None:
    answer = node.get(path)
    assert answer.status_code in {200, 404, 503}, answer.text
    return answer if answer.status_code == 503 else None


def _answered(node: NodeProcess, path: str) -> httpx2.Response | None:
    answer = node.get(path)
    return answer if answer.status_code == 200 else None


def test_values_are_json_by_their_schemas_or_bytes(
    broker: Broker, schema_registry: RegistryProcess, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    file = schema_registry.client_file(register=True)
    formats = {
        b"avro": AvroSerde(AVRO, Purchase), b"json": JsonSchemaSerde(JSON, Purchase),
        b"protobuf": ProtobufSerde(message(), Purchase),
    }  # fmt: skip
    registry = SchemaRegistry(file)
    request.addfinalizer(registry.close)
    serdes = {key: bound_to(serde, f"{LOG}-{key.decode()}", registry) for key, serde in formats.items()}
    for serde in serdes.values():
        serde.prepare()
    for topic in (LOG, f"{LOG}-raw", f"{LOG}-best"):
        broker.create_topic(topic, 1, COMPACTED)
    rows: list[tuple[bytes, bytes | None]] = [(key, serde.serialize(PURCHASE)) for key, serde in serdes.items()]
    for topic in (LOG, f"{LOG}-best"):
        write(broker, topic, [*rows, (b"plain", b'{"card":"8"}'), (b"unknown", b"\0\x7f\0\0\0x")])
    write(broker, f"{LOG}-raw", rows)
    (node,) = make_nodes(broker, tmp_path / "run", SERVED, names=["a"], kafka_properties=file)
    with started([node]):
        node.wait_ready()
        assert value(node, "avro") == b'{"key":"avro","value":{"card":"7","amount":1.2500}}'
        assert value(node, "json") == b'{"key":"json","value":{"card":"7","amount":1.2500}}'
        assert value(node, "protobuf") == b'{"key":"protobuf","value":{"card":"7","amount":"1.2500"}}'
        assert value(node, "plain") == b'{"key":"plain","value":{"card":"8"}}'
        assert orjson.loads(value(node, "unknown"))["value_format"] == "base64url"
        raw = orjson.loads(node.answer("/state/keyvalue/raw/avro").content)
        assert raw["value_format"] == "base64url"
        assert serdes[b"avro"].deserialize(base64.urlsafe_b64decode(raw["value"])) == PURCHASE
        page = orjson.loads(node.answer("/state/keyvalues/shown/all").content)
        assert {row["key"]: row["value"] for row in page}["avro"] == {"card": "7", "amount": 1.25}
        many = orjson.loads(node.answer("/state/keyvalues/shown?key=avro&key=protobuf").content)
        assert [row["value"]["card"] for row in many["rows"]] == ["7", "7"]

        best = orjson.loads(node.answer("/state/ranked/best/top").content)
        assert [(row["key"], row["score"], row["value"]["card"]) for row in best] == [
            ("avro", 1.25, "7"), ("json", 1.25, "7")
        ]  # fmt: skip
        assert orjson.loads(node.answer("/state/ranked/best/rank/avro").content)["of"] == 2
        assert node.get("/state/stores/best").json()["unranked_rows"] == 3

        # A schema that is newer than the node, while the registry is away: to be asked again, not shown as bytes.
        newer = bound_to(AvroSerde(AVRO_WITH_TILL), f"{LOG}-newer", registry)
        newer.prepare()
        row = newer.serialize({"card": "9", "amount": Decimal(1), "till": "t"})
        schema_registry.stop()
        for topic in (LOG, f"{LOG}-best"):
            write(broker, topic, [(b"newer", row)])
        refused = eventually(lambda: _refused(node, "/state/keyvalue/shown/newer"), 60, "the row is there")
        assert refused.headers["retry-after"] == "1"
        assert "schema" in refused.json()["detail"]
        assert value(node, "avro") == b'{"key":"avro","value":{"card":"7","amount":1.2500}}'
        # A ranking without that row would be wrong; without the row itself it is whole.
        waiting = eventually(lambda: _refused(node, "/state/ranked/best/top"), 60, "the ranking has the row")
        assert "no replica of partition 0 of best can answer now: ask again" in waiting.json()["detail"]
        write(broker, f"{LOG}-best", [(b"newer", None)])
        again = eventually(lambda: _answered(node, "/state/ranked/best/top"), 60, "the row is gone")
        assert again.json() == best
    schema_registry.start()


def test_a_node_without_a_registry_says_what_it_lacks(broker: Broker, tmp_path: Path) -> None:
    (node,) = make_nodes(broker, tmp_path / "run", SERVED, names=["a"])
    with started([node]):
        assert node.wait_exit() == 78
    assert "STOREKEEPER_KAFKA_PROPERTIES" in node.last_words
