from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import timestamp_pb2

from storekeeper.errors import ConfigurationError, SerializationError
from storekeeper.schemas.avro import AvroSerde
from storekeeper.schemas.bound import BoundSerde, bound_to
from storekeeper.schemas.errors import UnknownSchemaError
from storekeeper.schemas.json_schema import JsonSchemaSerde
from storekeeper.schemas.protobuf import ProtobufSerde
from storekeeper.schemas.registry import MemoryRegistry, SchemaRegistry
from storekeeper.serdes.serde import Utf8Serde
from tests.schemas.samples import AVRO, JSON, MONEY, Purchase, message

PURCHASE = Purchase("7", Decimal("1.2500"))
FORMATS = [AvroSerde(AVRO, Purchase), JsonSchemaSerde(JSON, Purchase), ProtobufSerde(message(), Purchase)]


@pytest.fixture(scope="module")
def shared() -> MemoryRegistry:
    """One for many cases: each takes some time to make."""
    return MemoryRegistry()


@pytest.mark.parametrize("inner", FORMATS, ids=["avro", "json", "protobuf"])
def test_a_topic_has_the_wire_format_and_the_app_itself_needs_no_registry(inner: Any) -> None:
    serde = bound_to(inner, "purchases", MemoryRegistry())
    data = serde.serialize(PURCHASE)
    assert data[:5].hex() == "0000000001"
    assert serde.deserialize(data) == PURCHASE
    assert inner.deserialize(inner.serialize(PURCHASE)) == PURCHASE


def test_golden_bytes() -> None:
    registry = MemoryRegistry()
    avro, json, protobuf = (bound_to(serde, name, registry) for serde, name in zip(FORMATS, "ajp", strict=True))
    assert avro.serialize(PURCHASE).hex() == "0000000001" + "0237" + "0430d4"
    assert json.serialize(PURCHASE) == b'\0\0\0\0\x02{"card":"7","amount":1.2500}'
    assert protobuf.serialize(PURCHASE).hex() == "0000000003" + "0202" + "0a0137" + "1206312e32353030"


def test_the_first_message_of_a_file_has_a_single_0() -> None:
    made: Any = message("Nothing")
    serde = bound_to(ProtobufSerde(made), "nothings", MemoryRegistry())
    assert serde.serialize(made()).hex() == "0000000001" + "00"
    assert serde.deserialize(serde.serialize(made())) == made()


@pytest.mark.parametrize("inner", FORMATS, ids=["avro", "json", "protobuf"])
@pytest.mark.parametrize("data", [b"", b"\0\0\0", b'{"card":"7"}', b"\x01\0\0\0\x01\x02", b"\0\0\0\0\x01"])
def test_other_bytes_do_not_decode(inner: Any, data: bytes, shared: MemoryRegistry) -> None:
    serde = bound_to(inner, "purchases", shared)
    serde.prepare()
    with pytest.raises(SerializationError):
        serde.deserialize(data)


def test_an_id_that_the_registry_does_not_have_does_not_decode() -> None:
    serde = bound_to(AvroSerde(AVRO, Purchase), "purchases", MemoryRegistry())
    with pytest.raises(UnknownSchemaError, match="no schema 99"):
        serde.deserialize(b"\0\0\0\0\x63\x02")


def test_a_value_of_another_format_does_not_decode() -> None:
    registry = MemoryRegistry()
    avro, _, protobuf = (bound_to(serde, name, registry) for serde, name in zip(FORMATS, "ajp", strict=True))
    for one, other in ((avro, protobuf), (protobuf, avro)):
        with pytest.raises(SerializationError, match="is of type"):
            one.deserialize(other.serialize(PURCHASE))


def test_other_serdes_stay_and_a_bound_one_is_bound_anew() -> None:
    text, registry = Utf8Serde(), MemoryRegistry()
    assert bound_to(text, "purchases", registry) is text
    again = bound_to(bound_to(FORMATS[0], "purchases", registry), "totals", registry)
    assert isinstance(again, BoundSerde)
    assert (again.inner, again.subject) == (FORMATS[0], "totals-value")


def test_without_a_registry_a_topic_can_be_neither_read_nor_written() -> None:
    serde = bound_to(AvroSerde(AVRO, Purchase), "purchases", SchemaRegistry(None))
    uses: list[Callable[[], Any]] = [
        lambda: serde.serialize(PURCHASE), lambda: serde.deserialize(b"\0\0\0\0\x01\x02")
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(ConfigurationError, match="`kafka_properties`"):
            use()


def test_a_format_says_which_fields_are_numbers_in_json() -> None:
    fields = [
        {"name": "long", "type": ["null", "long"]},
        {"name": "money", "type": MONEY},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "either", "type": ["int", "string"]},
        {"name": "name", "type": "string"},
        {"name": "few", "type": {"type": "array", "items": "int"}},
    ]
    assert AvroSerde({"type": "record", "name": "R", "fields": fields}).numbers() == {"long", "money"}
    assert AvroSerde('"long"').numbers() == frozenset()
    properties = {"a": {"type": "integer"}, "b": {"type": ["number", "null"]}, "c": {"type": "string"}, "d": True}
    assert JsonSchemaSerde({"type": "object", "properties": properties}).numbers() == {"a", "b"}
    assert JsonSchemaSerde("true").numbers() == frozenset()
    assert ProtobufSerde(message(cents=True)).numbers() == frozenset()  # an int64 is text in JSON
    assert ProtobufSerde(timestamp_pb2.Timestamp).numbers() == {"nanos"}
