"""Fields that a schema got later, with defaults of every kind."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isnan
from typing import Any
from uuid import UUID

import fastavro
import msgspec
import pytest

from storekeeper.schemas.avro import AvroSerde, read

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
NESTED = {
    "type": "record", "name": "N",
    "fields": [{"name": "a", "type": DECIMAL}, {"name": "b", "type": DECIMAL, "default": "\u0002"}],
}  # fmt: skip
KINDS: dict[str, tuple[Any, Any, Any]] = {
    "decimal": (DECIMAL, "\u0000", Decimal("0.00")),
    "negative decimal": (DECIMAL, "\u00ff", Decimal("-0.01")),
    "fixed decimal": (
        {"type": "fixed", "name": "F", "size": 3, "logicalType": "decimal", "precision": 5, "scale": 1},
        "\u0000\u0000\u0001", Decimal("0.1"),
    ),
    "millis": ({"type": "long", "logicalType": "timestamp-millis"}, 0, datetime(1970, 1, 1, tzinfo=UTC)),
    "micros": ({"type": "long", "logicalType": "timestamp-micros"}, 1, datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    "local": ({"type": "long", "logicalType": "local-timestamp-millis"}, 0, datetime(1970, 1, 1)),  # noqa: DTZ001
    "date": ({"type": "int", "logicalType": "date"}, 5, date(1970, 1, 6)),
    "time": ({"type": "int", "logicalType": "time-millis"}, 5, time(0, 0, 0, 5000)),
    "time in micros": ({"type": "long", "logicalType": "time-micros"}, 5, time(0, 0, 0, 5)),
    "uuid": ({"type": "string", "logicalType": "uuid"}, "00000000-0000-0000-0000-000000000001", UUID(int=1)),
    "bytes": ("bytes", "\u00ff", b"\xff"),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, "\u0000\u0001", b"\x00\x01"),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    "none": (["null", DECIMAL], None, None),
    "union": ([DECIMAL, "null"], "\u0001", Decimal("0.01")),
    "union of bytes": (["bytes", "string"], "\u0001", b"\x01"),
    "array": ({"type": "array", "items": DECIMAL}, ["\u0001"], [Decimal("0.01")]),
    "map": ({"type": "map", "values": "bytes"}, {"a": "\u00ff"}, {"a": b"\xff"}),
    "record": (NESTED, {"a": "\u0001"}, {"a": Decimal("0.01"), "b": Decimal("0.02")}),
    "union of record": ([NESTED, "null"], {"a": "\u0001"}, {"a": Decimal("0.01"), "b": Decimal("0.02")}),
    "array of records": (
        {"type": "array", "items": NESTED}, [{"a": "\u0001"}], [{"a": Decimal("0.01"), "b": Decimal("0.02")}],
    ),
    "float": ("float", 1, 1.0),
    "text": ("string", "x", "x"),
    "boolean": ("boolean", True, True),
}  # fmt: skip


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}, *fields]}


def written(schema: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
    return buffer.getvalue()


@pytest.mark.parametrize("name", KINDS)
def test_an_older_record_has_the_default_of_a_later_field(name: str) -> None:
    kind, default, value = KINDS[name]
    serde = AvroSerde(record({"name": "new", "type": kind, "default": default}))
    old = fastavro.parse_schema(record())
    found = read(written(record(), {"id": 7}), old, serde._parsed)
    assert found == {"id": 7, "new": value}
    assert type(found["new"]) is type(value)
    typed: Any = AvroSerde(
        record({"name": "new", "type": kind, "default": default}),
        msgspec.defstruct("R", [("id", int), ("new", type(value) | None)]),
    )
    assert typed._typed(read(written(record(), {"id": 7}), old, typed._parsed)).new == value


@pytest.mark.parametrize("name", KINDS)
def test_a_record_that_leaves_a_field_out_is_written_with_its_default(name: str) -> None:
    kind, default, value = KINDS[name]
    serde: AvroSerde[Any] = AvroSerde(record({"name": "new", "type": kind, "default": default}))
    assert serde.deserialize(serde.serialize({"id": 7})) == {"id": 7, "new": value}


def test_defaults_of_named_types_are_converted_wherever_they_are_used() -> None:
    serde: AvroSerde[Any] = AvroSerde(
        record({"name": "one", "type": NESTED}, {"name": "other", "type": "N", "default": {"a": "\u0003"}})
    )
    found = serde.deserialize(serde.serialize({"id": 1, "one": {"a": Decimal(1)}}))
    assert found["one"] == {"a": Decimal("1.00"), "b": Decimal("0.02")}
    assert found["other"] == {"a": Decimal("0.03"), "b": Decimal("0.02")}


def test_a_default_is_no_records_own_list() -> None:
    serde: AvroSerde[Any] = AvroSerde(record({"name": "new", "type": {"type": "array", "items": "int"}, "default": []}))
    old, data = fastavro.parse_schema(record()), written(record(), {"id": 7})
    one = serde._typed(read(data, old, serde._parsed))
    one["new"].append(1)
    assert serde._typed(read(data, old, serde._parsed))["new"] == []


def test_a_default_that_is_no_number_is_one_as_avro_says() -> None:
    serde: AvroSerde[Any] = AvroSerde(record({"name": "new", "type": "double", "default": "NaN"}))
    assert isnan(serde.deserialize(serde.serialize({"id": 7}))["new"])
