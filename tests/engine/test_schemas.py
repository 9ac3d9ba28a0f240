"""Avro and Protobuf on real Spark, Kafka and a real schema registry, beside Confluent's own serializers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from harness.broker import Broker
from harness.failover.proxy import Network
from harness.ports import free_ports
from harness.schema_registry import RegistryProcess
from storekeeper.apps.topology_app import Describe
from storekeeper.engine.runtime.batch_query import ProcessBatch
from storekeeper.schemas.errors import IncompatibleSchemaError, SchemaRegistryUnavailableError, UnregisteredSchemaError
from storekeeper.schemas.registry import registry_of
from tests.engine import schema_topologies as topologies
from tests.engine.spark_run import SparkRun
from tests.schemas.samples import AVRO, message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long("tests/topology/test_schemas.py")]

MakeRun = Callable[..., SparkRun]
NOW_MS = int(time.time() * 1000) - 3_600_000
_TOPICS = {"shop-purchases": 2, "shop-refunds": 2, "shop-receipts": 1, "shop-totals": 1}
_NAMED = {"subject.name.strategy": topic_subject_name_strategy}


@pytest.fixture
def make_run(
    broker: Broker, schema_registry: RegistryProcess, request: pytest.FixtureRequest, tmp_path: Path
) -> MakeRun:
    spark: SparkSession = request.getfixturevalue("spark_session")

    def make(describe: Describe, *, register: bool, port: int | None = None) -> SparkRun:
        file = schema_registry.client_file(register=register, port=port)
        request.addfinalizer(registry_of(file).close)
        kafka = replace(broker.kafka, properties=file)
        return SparkRun("shop", describe, broker, spark, tmp_path / "shop", kafka=kafka)

    return make


@pytest.fixture
def client(schema_registry: RegistryProcess) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient(schema_registry.client) as made:
        yield made


def _of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def _purchase(client: SchemaRegistryClient, card: str, amount: str) -> bytes:
    write = AvroSerializer(client, json.dumps(AVRO), conf=_NAMED)
    data: bytes = write({"card": card, "amount": Decimal(amount)}, _of("shop-purchases"))
    return data


def _refund(client: SchemaRegistryClient, card: str, amount: str) -> bytes:
    made: Any = message()
    data: bytes = ProtobufSerializer(made, client, conf=_NAMED)(made(card=card, amount=amount), _of("shop-refunds"))
    return data


def _totals(run: SparkRun, client: SchemaRegistryClient) -> dict[str, Decimal]:
    read = AvroDeserializer(client)
    rows = [read(value) for value in run.rows("shop-totals-changelog").values()]
    return {row["card"]: row["sum"] for row in rows}


def test_a_schema_changes_compatibly_and_an_incompatible_one_is_refused_by_name(
    make_run: MakeRun, client: SchemaRegistryClient
) -> None:
    run = make_run(topologies.shop, register=True)
    run.make_topics(_TOPICS)
    run.produce("shop-purchases", [(b"a", _purchase(client, "7", "0.1"), NOW_MS), (b"b", b"{}", NOW_MS + 1)])
    run.produce("shop-refunds", [(b"a", _refund(client, "7", "0.03"), NOW_MS + 2)])
    run.run()
    assert _totals(run, client) == {"7": Decimal("0.0700")}
    made: Any = message()
    receipts = [ProtobufDeserializer(made, {})(value) for _, _, value, _ in run.records("shop-receipts")]
    assert receipts == [made(card="7", amount="0.1000")]
    assert [(key, value) for _, key, value, _ in run.records("shop-dlq")] == [(b"b", b"{}")]

    for subject, refused in (
        ("shop-totals-changelog-value", topologies.shop_with_required_tills),
        ("shop-receipts-value", topologies.shop_in_cents),
    ):
        client.set_compatibility(subject, "BACKWARD")
        with pytest.raises(IncompatibleSchemaError, match=f"subject {subject} refuses"):
            make_run(refused, register=True).run()
    with pytest.raises(UnregisteredSchemaError, match="shop-receipts-value"):
        make_run(topologies.shop_with_tills, register=False).run()

    later = make_run(topologies.shop_with_tills, register=True)
    later.produce("shop-purchases", [(b"a", _purchase(client, "7", "1"), NOW_MS + 3)])
    later.run()
    assert _totals(later, client) == {"7": Decimal("1.0700")}
    for subject in ("shop-totals-changelog-value", "shop-receipts-value"):
        assert len(client.get_versions(subject)) == 2


def test_a_registry_that_is_away_stops_the_app_and_loses_nothing(
    make_run: MakeRun, client: SchemaRegistryClient, schema_registry: RegistryProcess
) -> None:
    (port,) = free_ports(1)
    with Network() as network:
        network.proxy(schema_registry.port, port)
        run = make_run(topologies.shop, register=True, port=port)
        run.make_topics(_TOPICS)
        run.produce("shop-purchases", [(b"a", _purchase(client, "8", "0.1"), NOW_MS)])

        def cut_off(process: ProcessBatch) -> ProcessBatch:
            def processed(batch_id: int) -> None:
                network.__exit__()
                process(batch_id)

            return processed

        with pytest.raises(SchemaRegistryUnavailableError):
            run.run(cut_off)
    with Network() as network:
        network.proxy(schema_registry.port, port)
        run.run()
    assert _totals(run, client) == {"8": Decimal("0.1000")}
    assert run.records("shop-dlq") == []
