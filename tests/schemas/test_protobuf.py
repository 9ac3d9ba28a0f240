from __future__ import annotations

import base64
import errno
from decimal import Decimal
from typing import Literal

import msgspec
import pytest
from google.protobuf import descriptor_pb2

from storekeeper.errors import ConfigurationError, SerializationError
from storekeeper.schemas.bound import bound_to
from storekeeper.schemas.protobuf import ProtobufSerde, file_of
from storekeeper.schemas.registry import MemoryRegistry
from storekeeper.topology.failures import is_of_record
from tests.schemas.samples import Purchase, message, proto


class TillPurchase(Purchase, frozen=True):
    till: str = ""


class Cents(msgspec.Struct):
    card: str
    amount: int


def test_values_are_messages_or_structs() -> None:
    made = message()
    value = made(card="7", amount="1.25")
    assert ProtobufSerde(made).deserialize(ProtobufSerde(made).serialize(value)) == value
    assert ProtobufSerde(made, Purchase).deserialize(value.SerializeToString()) == Purchase("7", Decimal("1.25"))
    big = Cents("7", 2**62 + 1)
    serde = ProtobufSerde(message(cents=True), Cents)
    assert serde.deserialize(serde.serialize(big)) == big


def test_what_does_not_fit_is_refused_without_its_content() -> None:
    for serde, value in (
        (ProtobufSerde(message(cents=True), Purchase), Purchase("4836051607", Decimal("1.5"))),
        (ProtobufSerde(message()), Purchase("4836051607", Decimal(1))),
        (ProtobufSerde(message()), message()(card="4836051607")),  # of another pool: another class
        (ProtobufSerde(message(), TillPurchase), TillPurchase("4836051607", Decimal(1))),
    ):
        with pytest.raises(SerializationError) as error:
            serde.serialize(value)  # type: ignore[arg-type]
        assert "4836051607" not in str(error.value)
    for damaged in (b"\xff", b"\x0a\x05ab"):
        with pytest.raises(SerializationError):
            ProtobufSerde(message(), Purchase).deserialize(damaged)


def test_a_message_that_its_type_refuses_is_not_quoted() -> None:
    class Till(msgspec.Struct):
        card: Literal["a", "b"]

    with pytest.raises(SerializationError, match=r"is not a Till: Invalid enum value - at `\$\.card`"):
        ProtobufSerde(message(), Till).deserialize(message()(card="4836051607").SerializeToString())


def test_a_disk_that_is_full_where_a_type_reads_is_not_the_records_fault() -> None:
    class Till(msgspec.Struct):
        card: str

        def __post_init__(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(SerializationError, match="is not a Till: OSError") as failed:
        ProtobufSerde(message(), Till).deserialize(message()(card="a").SerializeToString())
    assert not is_of_record(failed.value)


def test_a_newer_message_is_read_and_another_one_is_not() -> None:
    registry = MemoryRegistry()
    old = bound_to(ProtobufSerde(message(), Purchase), "purchases", registry)
    new = bound_to(ProtobufSerde(message(tills=True), TillPurchase), "purchases", registry)
    assert old.deserialize(new.serialize(TillPurchase("7", Decimal(1), "till-1"))) == Purchase("7", Decimal(1))
    assert new.deserialize(old.serialize(Purchase("7", Decimal(1)))) == TillPurchase("7", Decimal(1), "")
    other = bound_to(ProtobufSerde(message("Nothing")), "purchases", registry)
    with pytest.raises(SerializationError, match=r"another message than shop\.Nothing"):
        other.deserialize(old.serialize(Purchase("7", Decimal(1))))


def test_of_a_schema_as_text_the_place_of_the_message_decides() -> None:
    from confluent_kafka.schema_registry import Schema

    registry = MemoryRegistry()
    schema_id = registry.register("purchases-value", Schema(proto(), "PROTOBUF"))
    body = message()(card="7", amount="1").SerializeToString()
    same = bound_to(ProtobufSerde(message(), Purchase), "purchases", registry)
    assert same.deserialize(same.inner.head(schema_id) + body) == Purchase("7", Decimal(1))
    with pytest.raises(SerializationError, match="another message"):
        same.deserialize(ProtobufSerde(message("Nothing")).head(schema_id) + body)


@pytest.mark.parametrize("indexes", ["04", "0201", "0210", "ff", "ffffffffffffffff01", "0202ff"])
def test_a_place_that_can_not_be_is_refused(indexes: str) -> None:
    registry = MemoryRegistry()
    serde = bound_to(ProtobufSerde(message(), Purchase), "purchases", registry)
    serde.prepare()
    with pytest.raises(SerializationError):
        serde.deserialize(bytes.fromhex("0000000001" + indexes))


def test_the_registry_gets_the_text_that_is_given_or_else_the_descriptor() -> None:
    made = message()
    assert ProtobufSerde(made, proto=proto()).schema().schema_str == proto()
    schema = ProtobufSerde(made).schema()
    assert (schema.schema_type, schema.schema_str) == (
        "PROTOBUF", base64.b64encode(made.DESCRIPTOR.file.serialized_pb).decode()
    )  # fmt: skip


def test_only_a_message_makes_a_serde() -> None:
    with pytest.raises(ConfigurationError, match="message class"):
        ProtobufSerde(dict)


def test_a_schema_may_import_a_file_of_google_that_no_module_has_loaded() -> None:
    from confluent_kafka.schema_registry import Schema

    file = descriptor_pb2.FileDescriptorProto(
        name="rare.proto", syntax="proto3", dependency=["google/protobuf/api.proto"]
    )
    file.message_type.add(name="Rare").field.add(
        name="api", number=1, type=11, label=1, type_name=".google.protobuf.Api"
    )
    schema = Schema(base64.b64encode(file.SerializeToString()).decode(), "PROTOBUF")
    found = file_of(schema, MemoryRegistry())
    assert found is not None
    assert [field.name for field in found.message_types_by_name["Rare"].fields] == ["api"]
    unknown = descriptor_pb2.FileDescriptorProto(name="odd.proto", dependency=["google/protobuf/odd.proto"])
    with pytest.raises(SerializationError, match="not a whole Protobuf file"):
        file_of(Schema(base64.b64encode(unknown.SerializeToString()).decode(), "PROTOBUF"), MemoryRegistry())
