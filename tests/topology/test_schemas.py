"""A topology whose topics and stores are in the formats of a schema registry."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from storekeeper.errors import ConfigurationError
from storekeeper.schemas.avro import AvroSerde
from storekeeper.schemas.bound import value_subject
from storekeeper.schemas.errors import SchemaRegistryUnavailableError
from storekeeper.schemas.framing import framed
from storekeeper.schemas.json_schema import JsonSchemaSerde
from storekeeper.schemas.protobuf import ProtobufSerde
from storekeeper.schemas.registry import MemoryRegistry, SchemaRegistry
from storekeeper.topology import Store, StreamsBuilder, TopologyTestDriver
from storekeeper.topology.plan import Topology
from storekeeper.topology.schemas import bind_schemas, written_schemas
from tests.schemas.samples import AVRO, Purchase, message

LOGS = {"totals": "shop-totals-changelog"}
TOTALS = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}


class Total(msgspec.Struct):
    sum: Decimal = Decimal(0)


def add(total: Total, purchase: Purchase) -> Total:
    return Total(total.sum + purchase.amount)


def shop(registry: SchemaRegistry) -> Topology:
    """Reads Avro, keeps JSON with a schema, writes Protobuf; between them it repartitions Avro."""
    streams = StreamsBuilder("shop")
    purchases = streams.stream("purchases", AvroSerde(AVRO, Purchase))
    purchases.to("receipts", values=ProtobufSerde(message(), Purchase))
    cards = purchases.select_key(lambda _, purchase: purchase.card).group_by_key()
    cards.aggregate(Total, add, store=Store("totals", JsonSchemaSerde(TOTALS, Total)))
    topology = streams.build()
    bind_schemas(topology, registry, LOGS)
    return topology


def test_each_topic_and_changelog_has_its_format_and_its_subject() -> None:
    registry = MemoryRegistry()
    driver = TopologyTestDriver(shop(registry))
    driver.pipe("purchases", None, Purchase("7", Decimal("0.1")))
    driver.pipe("purchases", None, Purchase("7", Decimal("0.2")))
    assert [record.value for record in driver.read("receipts")] == [
        Purchase("7", Decimal("0.1000")), Purchase("7", Decimal("0.2000"))
    ]  # fmt: skip
    assert driver.rows("totals") == [("7", Total(Decimal("0.3000")))]
    (_, changed) = driver.changelog("totals")[-1]
    assert changed is not None
    schema_id, body = framed(changed)
    assert body == b'{"sum":0.3000}'
    assert registry.ids(value_subject("shop-totals-changelog")) == [schema_id]
    assert {serde.subject for serde in written_schemas(shop(registry))} == {
        "receipts-value", "shop-totals-changelog-value"
    }  # fmt: skip


def test_what_passes_between_the_tasks_of_an_app_needs_no_subject() -> None:
    registry = MemoryRegistry()
    driver = TopologyTestDriver(shop(registry))
    driver.pipe("purchases", None, Purchase("7", Decimal("0.1")))
    assert not [subject for subject in registry._client.get_subjects() if "repartition" in subject]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"card":"7","amount":1}', "SerializationError"),
        (b"\0\0\0\0\x01\x02", "SerializationError"),
        (b"\0\0\0\0\x63\x02", "UnknownSchemaError"),
    ],
)
def test_what_does_not_decode_is_a_dead_letter_with_the_class_of_its_error(value: bytes, reason: str) -> None:
    driver = TopologyTestDriver(shop(MemoryRegistry()))
    driver.pipe("purchases", None, Purchase("7", Decimal("0.1")))
    driver.append_bytes("purchases", None, value)
    driver.run()
    (letter,) = driver.dead_letters
    assert (letter.error_class, letter.record.value) == (reason, value)
    assert driver.rows("totals") == [("7", Total(Decimal("0.1000")))]


def test_a_registry_that_does_not_answer_makes_no_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = MemoryRegistry()
    driver = TopologyTestDriver(shop(registry))
    value = AvroSerde(AVRO, Purchase).head(1) + AvroSerde(AVRO, Purchase).body(Purchase("7", Decimal(1)))
    registry.register("purchases-value", AvroSerde(AVRO).schema())
    with monkeypatch.context() as away:
        away.setattr(registry, "schema", _does_not_answer)
        driver.append_bytes("purchases", None, value)
        with pytest.raises(SchemaRegistryUnavailableError):
            driver.run()
    assert driver.dead_letters == []
    driver.run()
    assert driver.rows("totals") == [("7", Total(Decimal("1.0000")))]


def _does_not_answer(schema_id: int) -> None:
    msg = f"the schema registry doesn't answer: schema {schema_id} isn't known"
    raise SchemaRegistryUnavailableError(msg)


def test_rows_that_an_older_version_wrote_are_read() -> None:
    """The changelog of the old version, restored by the new one."""
    registry = MemoryRegistry()
    old = TopologyTestDriver(_kept(registry, AvroSerde(AVRO, Purchase)))
    old.pipe("purchases", "7", Purchase("7", Decimal(1)))
    later = {**AVRO, "fields": [*AVRO["fields"], {"name": "till", "type": "string", "default": "?"}]}
    new = _kept(registry, AvroSerde(later))
    ((_, stored),) = old.changelog("kept")
    assert stored is not None
    (spec,) = (spec for sub in new.sub_topologies for spec in sub.stores)
    assert spec.value_serde.deserialize(stored) == {"card": "7", "amount": Decimal("1.0000"), "till": "?"}


def _kept(registry: SchemaRegistry, values: AvroSerde[Purchase]) -> Topology:
    streams = StreamsBuilder("shop")
    streams.table("purchases", values, store="kept")
    topology = streams.build()
    bind_schemas(topology, registry, {"kept": "shop-kept-changelog"})
    return topology


def test_keys_are_by_no_schema() -> None:
    streams = StreamsBuilder("shop")
    streams.stream("purchases", str, keys=AvroSerde(AVRO))
    with pytest.raises(ConfigurationError, match="keys of topic purchases"):
        bind_schemas(streams.build(), MemoryRegistry(), {})


def test_a_store_by_a_schema_is_ranked_by_a_number_of_the_schema() -> None:
    def ranked_by(field: str) -> Topology:
        streams = StreamsBuilder("shop")
        cards = streams.stream("purchases", AvroSerde(AVRO, Purchase)).select_key(lambda _, row: row.card)
        cards.group_by_key().reduce(lambda old, _: old, store=Store("last", AvroSerde(AVRO, Purchase), ranked_by=field))
        topology = streams.build()
        bind_schemas(topology, MemoryRegistry(), {"last": "shop-last-changelog"})
        return topology

    driver = TopologyTestDriver(ranked_by("amount"))
    driver.pipe("purchases", None, Purchase("7", Decimal(1)))
    assert driver.rows("last") == [("7", Purchase("7", Decimal("1.0000")))]
    for wrong in ("card", "price"):
        with pytest.raises(ConfigurationError, match="not a field that is a number in JSON by its schema"):
            ranked_by(wrong)
