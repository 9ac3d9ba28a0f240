from __future__ import annotations

import errno
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

import msgspec
import pytest

from storekeeper.errors import ConfigurationError, SerializationError
from storekeeper.schemas.avro import AvroSerde
from storekeeper.schemas.bound import bound_to
from storekeeper.schemas.registry import MemoryRegistry
from storekeeper.topology.failures import is_of_record
from tests.schemas.samples import AVRO, AVRO_WITH_REQUIRED_TILL, AVRO_WITH_TILL, MONEY, Purchase


class TillPurchase(Purchase, frozen=True):
    till: str


def test_money_keeps_all_its_digits_and_is_never_rounded() -> None:
    serde = AvroSerde(AVRO, Purchase)
    exact = Purchase("7", Decimal("12345678901234.5678"))
    assert serde.deserialize(serde.serialize(exact)) == exact
    for refused in ("0.12345", "123456789012345.6789", "NaN"):
        with pytest.raises(SerializationError):
            serde.serialize(Purchase("7", Decimal(refused)))


def test_without_a_type_a_record_is_a_dict_that_must_fit() -> None:
    serde = AvroSerde(AVRO)
    record = {"card": "7", "amount": Decimal("0.1000")}
    assert serde.deserialize(serde.serialize(record)) == record
    for wrong, named in (({"card": "7"}, "amount"), ({**record, "card": 7}, "card"), ({**record, "more": 1}, "more")):
        with pytest.raises(SerializationError, match=f"schema: {named}"):
            serde.serialize(wrong)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("int", 2**31), ("int", -(2**31) - 1), ("int", 1.5), ("int", True), ("long", 1.5), ("boolean", None),
        ("boolean", "no"), ("double", "1"), ({"type": "array", "items": "int"}, [1, 2**40]),
        ({"type": "map", "values": "boolean"}, {"a": 1}),
    ],
)  # fmt: skip
def test_a_value_that_would_be_read_as_another_one_is_refused(kind: Any, wrong: Any) -> None:
    serde = AvroSerde({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]})
    with pytest.raises(SerializationError, match="schema: a"):
        serde.serialize({"a": wrong})


def test_the_largest_and_the_least_int_are_one() -> None:
    serde = AvroSerde({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": 7}]})
    for record in ({"a": 2**31 - 1}, {"a": -(2**31)}):
        assert serde.deserialize(serde.serialize(record)) == record
    assert serde.deserialize(serde.serialize({})) == {"a": 7}


def test_damaged_bytes_are_refused() -> None:
    serde = AvroSerde(AVRO)
    data = serde.serialize({"card": "7", "amount": Decimal(1)})
    for damaged in (data[:-1], data + b"x", b"\xff", b""):
        with pytest.raises(SerializationError):
            serde.deserialize(damaged)


def test_an_error_shows_no_part_of_the_value() -> None:
    registry = MemoryRegistry()
    serde = bound_to(AvroSerde(AVRO, Purchase), "purchases", registry)
    with pytest.raises(SerializationError) as refused:
        serde.inner.serialize(Purchase("4836051607", "much"))  # type: ignore[arg-type]
    data = serde.serialize(Purchase("4836051607", Decimal(1)))
    with pytest.raises(SerializationError) as undecoded:
        serde.deserialize(data[:-1])
    for error in (refused, undecoded):
        assert "4836051607" not in str(error.value)
        assert "much" not in str(error.value)


def test_an_error_of_a_type_shows_no_part_of_the_value_either() -> None:
    class Till(msgspec.Struct):
        card: Literal["a", "b"]

    field = {"name": "card", "type": "string"}
    anything = AvroSerde({"type": "record", "name": "T", "fields": [field]})
    with pytest.raises(SerializationError, match=r"is not a Till: Invalid enum value - at `\$\.card`") as refused:
        AvroSerde({"type": "record", "name": "T", "fields": [field]}, Till).deserialize(
            anything.serialize({"card": "4836051607"})
        )
    assert is_of_record(refused.value)


def test_a_disk_that_is_full_where_a_type_reads_is_not_the_records_fault() -> None:
    class Till(msgspec.Struct):
        card: str

        def __post_init__(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    schema = {"type": "record", "name": "T", "fields": [{"name": "card", "type": "string"}]}
    with pytest.raises(SerializationError, match="is not a Till: OSError") as failed:
        AvroSerde(schema, Till).deserialize(AvroSerde(schema).serialize({"card": "a"}))
    assert not is_of_record(failed.value)


def test_times_are_read_as_the_schema_says() -> None:
    class Visit(msgspec.Struct):
        at: datetime

    at = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}
    serde = AvroSerde({"type": "record", "name": "V", "fields": [at]}, Visit)
    visit = Visit(datetime(2026, 11, 25, 21, 30, tzinfo=UTC))
    assert serde.deserialize(serde.serialize(visit)) == visit


def test_records_of_an_older_and_a_newer_schema_are_read_by_the_rules_of_avro() -> None:
    registry = MemoryRegistry()
    old = bound_to(AvroSerde(AVRO, Purchase), "purchases", registry)
    new = bound_to(AvroSerde(AVRO_WITH_TILL, TillPurchase), "purchases", registry)
    assert new.deserialize(old.serialize(Purchase("7", Decimal(1)))) == TillPurchase("7", Decimal("1.0000"), "")
    assert old.deserialize(new.serialize(TillPurchase("7", Decimal(1), "till-1"))) == Purchase("7", Decimal("1.0000"))
    stricter = bound_to(AvroSerde(AVRO_WITH_REQUIRED_TILL, TillPurchase), "purchases", registry)
    with pytest.raises(SerializationError, match="SchemaResolutionError"):
        stricter.deserialize(old.serialize(Purchase("7", Decimal(1))))


def test_values_for_the_app_itself_are_refused_by_another_schema() -> None:
    """Also where Avro's own fingerprint is the same, as for two scales of a decimal."""
    scaled = {**AVRO, "fields": [AVRO["fields"][0], {"name": "amount", "type": {**MONEY, "scale": 2}}]}
    with pytest.raises(SerializationError, match="new generation"):
        AvroSerde(scaled, Purchase).deserialize(AvroSerde(AVRO, Purchase).serialize(Purchase("7", Decimal(1))))


def test_a_schema_may_refer_to_another_subject() -> None:
    from confluent_kafka.schema_registry import Schema, SchemaReference

    registry = MemoryRegistry()
    registry.register("purchase", AvroSerde(AVRO).schema())
    basket = '{"type":"record","name":"Basket","namespace":"shop","fields":[{"name":"first","type":"shop.Purchase"}]}'
    schema_id = registry.register("baskets-value", Schema(basket, "AVRO", [SchemaReference("p", "purchase", 1)]))
    reader = AvroSerde(
        {"type": "record", "name": "Basket", "namespace": "shop", "fields": [{"name": "first", "type": AVRO}]}
    )
    plain = AvroSerde(AVRO).body({"card": "7", "amount": Decimal(1)})
    read = bound_to(reader, "baskets", registry).deserialize(reader.head(schema_id) + plain)
    assert read == {"first": {"card": "7", "amount": Decimal("1.0000")}}


def test_what_is_no_schema_is_refused() -> None:
    for wrong in ({"type": "nonsense"}, "{"):
        with pytest.raises(ConfigurationError, match="not an Avro schema"):
            AvroSerde(wrong)
