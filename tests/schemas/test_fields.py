"""Which fields of a schema are columns, of which type, and what a value has in them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pytest
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.message import Message

from storekeeper.apps.value_fields import fields_of
from storekeeper.schemas.avro import AvroSerde
from storekeeper.schemas.bound import bound_to
from storekeeper.schemas.column_fields import common_type
from storekeeper.schemas.json_schema import JsonSchemaSerde
from storekeeper.schemas.protobuf import ProtobufSerde
from storekeeper.schemas.registry import MemoryRegistry
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.columns import StoreValues, derived_columns

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
FIXED = {"type": "fixed", "name": "Cents", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 2}


def _logical(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


@pytest.mark.parametrize(
    ("kind", "value", "sql_type", "shown"),
    [
        ("string", "a", "string", "a"),
        ("boolean", True, "boolean", True),
        ("int", -1, "bigint", -1),
        ("long", 2**63 - 1, "bigint", 2**63 - 1),
        ("float", 0.5, "double", 0.5),
        ("double", float("nan"), "double", None),
        ("bytes", b"\xff", "string", "/w=="),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "A", "string", "A"),
        (_logical("bytes", "decimal", precision=18, scale=4), Decimal("1.5"), "decimal(18,4)", Decimal("1.5000")),
        (_logical("bytes", "decimal", precision=38), Decimal(7), "decimal(38,0)", Decimal(7)),
        (_logical("bytes", "decimal", precision=40, scale=2), Decimal("1.50"), "string", "1.50"),
        (FIXED, Decimal("-1.25"), "decimal(18,2)", Decimal("-1.25")),
        (_logical("int", "date"), date(2026, 11, 26), "date", date(2026, 11, 26)),
        (_logical("long", "timestamp-millis"), NOON, "timestamp", NOON),
        (_logical("long", "timestamp-micros"), NOON.replace(microsecond=1), "timestamp", NOON.replace(microsecond=1)),
        (_logical("long", "local-timestamp-millis"), NOON.replace(tzinfo=None), "string", "2026-11-26T12:00:00"),
        (_logical("int", "time-millis"), time(12, 30), "string", "12:30:00"),
        (_logical("string", "uuid"), UUID(int=1), "string", str(UUID(int=1))),
        (_logical("long", "unheard-of"), 5, "bigint", 5),
        (["null", "long"], None, "bigint", None),
        (["double", "null", "int"], 3, "double", 3.0),
        (["long", _logical("bytes", "decimal", precision=4, scale=2)], Decimal("1.50"), "decimal(21,2)",
         Decimal("1.50")),
        (["long", "string"], 3, "string", "3"),
        (["long", "string"], "a", "string", "a"),
        ({"type": "array", "items": _logical("bytes", "decimal", precision=30, scale=2)},
         [Decimal("1234567890123456789.01")], "string", "[1234567890123456789.01]"),
        ({"type": "map", "values": "long"}, {"a": 1}, "string", '{"a":1}'),
        ({"type": "record", "name": "In", "fields": [{"name": "x", "type": "bytes"}]}, {"x": b"\xff"}, "string",
         '{"x":"/w=="}'),
        (["null", "R"], {"f": None}, "string", '{"f":null}'),
    ],
)  # fmt: skip
def test_a_field_of_avro_is_a_column(kind: Any, value: Any, sql_type: str, shown: Any) -> None:
    serde = AvroSerde({"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]})
    (field,) = serde.fields()
    assert field.sql_type == sql_type
    assert column(serde, {"f": value}) == shown


def test_a_type_of_avro_that_is_used_by_its_name_is_the_same_column() -> None:
    fields = [{"name": "a", "type": FIXED}, {"name": "b", "type": ["null", "Cents"], "default": None}]
    assert AvroSerde({"type": "record", "name": "R", "fields": fields}).fields() == (
        ValueField("a", "decimal(18,2)"), ValueField("b", "decimal(18,2)", nullable=True)
    )  # fmt: skip


def test_a_field_of_avro_is_nullable_if_it_may_be_null_or_older_rows_may_lack_it() -> None:
    fields: list[dict[str, Any]] = [
        {"name": "due", "type": "string", "doc": "What it is."},
        {"name": "null", "type": ["null", "string"]},
        {"name": "later", "type": "string", "default": ""},
    ]
    assert AvroSerde({"type": "record", "name": "R", "fields": fields}).fields() == (
        ValueField("due", "string", meaning="What it is."),
        ValueField("null", "string", nullable=True),
        ValueField("later", "string", nullable=True),
    )
    assert AvroSerde('"long"').fields() == ()


def proto(*fields: tuple[str, int, str | None], repeated: bool = False) -> type[Message]:
    file = descriptor_pb2.FileDescriptorProto(name="all.proto", package="all", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    made = file.message_type.add(name="All")
    made.enum_type.add(name="Kind").value.add(name="NONE", number=0)
    for number, (name, kind, message) in enumerate(fields, 1):
        made.field.add(name=name, number=number, type=kind, label=3 if repeated else 1, type_name=message)
    pool = descriptor_pool.DescriptorPool()
    for module in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("all.All"))


_DOUBLE, _INT64, _UINT64, _INT32, _BOOL, _STRING, _MESSAGE, _BYTES, _ENUM = 1, 3, 4, 5, 8, 9, 11, 12, 14


@pytest.mark.parametrize(
    ("kind", "message", "value", "sql_type", "shown"),
    [
        (_DOUBLE, None, 0.5, "double", 0.5),
        (_INT32, None, -1, "bigint", -1),
        (_INT64, None, -(2**63), "bigint", -(2**63)),
        (_UINT64, None, 2**64 - 1, "decimal(20,0)", Decimal(2**64 - 1)),
        (_BOOL, None, True, "boolean", True),
        (_STRING, None, "a", "string", "a"),
        (_BYTES, None, b"\xff", "string", "/w=="),
        (_ENUM, ".all.All.Kind", 0, "string", "NONE"),
        (_MESSAGE, ".google.protobuf.Timestamp", {"seconds": 1, "nanos": 5_999}, "timestamp",
         datetime(1970, 1, 1, 0, 0, 1, 5, UTC)),
        (_MESSAGE, ".google.protobuf.Int64Value", {"value": 2**62}, "bigint", 2**62),
        (_MESSAGE, ".google.protobuf.StringValue", {"value": "a"}, "string", "a"),
        (_MESSAGE, ".all.All", {}, "string", "{}"),
    ],
)  # fmt: skip
def test_a_field_of_protobuf_is_a_column(kind: int, message: str | None, value: Any, sql_type: str, shown: Any) -> None:
    made: Any = proto(("f", kind, message))
    serde = ProtobufSerde(made)
    assert serde.fields() == (ValueField("f", sql_type, nullable=True),)
    assert column(serde, made(f=value)) == shown


def test_repeated_fields_maps_and_any_message_are_text() -> None:
    made: Any = proto(("few", _INT64, None), repeated=True)
    assert ProtobufSerde(made).fields() == (ValueField("few", "string", nullable=True),)
    assert column(ProtobufSerde(made), made(few=[1, 2])) == '["1","2"]'
    assert {field.sql_type for field in ProtobufSerde(struct_pb2.Struct).fields()} == {"string"}
    assert {field.sql_type for field in ProtobufSerde(any_pb2.Any).fields()} == {"string"}


@pytest.mark.parametrize(
    ("rule", "value", "sql_type", "shown"),
    [
        ({"type": "string"}, "a", "string", "a"),
        ({"type": "string", "format": "date-time"}, "soon", "string", "soon"),
        ({"type": "integer"}, 3, "bigint", 3),
        ({"type": ["integer", "number"]}, 3, "double", 3.0),
        ({"type": "number"}, 0.5, "double", 0.5),
        ({"type": ["null", "boolean"]}, True, "boolean", True),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 3, "bigint", 3),
        ({"oneOf": [{"$ref": "#/$defs/Price"}, {"type": "null"}]}, 3, "double", 3.0),
        ({"$ref": "#/$defs/Price"}, 3, "double", 3.0),
        ({"$ref": "#/$defs/Loop"}, 3, "string", "3"),
        ({"$ref": "https://elsewhere.example/x"}, None, "string", None),
        ({"type": ["integer", "string"]}, 3, "string", "3"),
        ({"anyOf": [{"type": "integer"}, True]}, "a", "string", "a"),
        ({"type": "array"}, [1.5], "string", "[1.5]"),
        ({"type": "object"}, {"a": None}, "string", '{"a":null}'),
        ({"enum": [1, "a"]}, "a", "string", "a"),
        (True, [], "string", "[]"),
    ],
)
def test_a_property_of_json_schema_is_a_column(rule: Any, value: Any, sql_type: str, shown: Any) -> None:
    kinds = {"Price": {"type": "number"}, "Loop": {"$ref": "#/$defs/Loop"}}
    serde = JsonSchemaSerde({"type": "object", "properties": {"f": rule}, "$defs": kinds})
    assert [field.sql_type for field in serde.fields()] == [sql_type]
    assert columns_of(serde, b'{"f":%s}' % msgspec.json.encode(value), ["f"]) == [shown]


def test_a_property_is_nullable_unless_it_must_be_there() -> None:
    properties = {
        "due": {"type": "integer", "minimum": 0, "description": "How many."},
        "null": {"type": ["integer", "null"]},
        "any": {},
        "left": {"type": "integer", "exclusiveMinimum": -1},
    }
    schema = {"$ref": "#/$defs/T", "$defs": {"T": {"properties": properties, "required": ["due", "null", "any"]}}}
    assert JsonSchemaSerde(schema).fields() == (
        ValueField("due", "bigint", never_negative=True, meaning="How many."),
        ValueField("null", "bigint", nullable=True),
        ValueField("any", "string", nullable=True),
        ValueField("left", "bigint", nullable=True),
    )
    for no_object in ("true", '{"type":"integer"}', '{"$ref":"#"}'):
        assert JsonSchemaSerde(no_object).fields() == ()


def test_a_struct_beside_a_schema_says_more_about_its_fields() -> None:
    class Total(msgspec.Struct):
        sum: Annotated[
            Decimal, msgspec.Meta(extra={"sql": "decimal(18,2)", "only_grows": True}, description="Spent.")
        ] = Decimal(0)
        card: str = ""
        other: list[int] = []

    schema = {"properties": {"card": {"type": "string"}, "sum": {"type": "number", "minimum": 0}}}
    serde = bound_to(JsonSchemaSerde(schema, Total), "totals", MemoryRegistry())
    assert fields_of(serde) == (
        ValueField("card", "string", nullable=True),
        ValueField("sum", "decimal(18,2)", nullable=True, never_negative=True, only_grows=True, meaning="Spent."),
    )


def test_names_that_a_table_can_not_have_are_no_columns() -> None:
    names = ["a", "A", "_offset", "b c", "b.c", "b-c", "b`c", "é", "1st", ""]
    schema = {"properties": {name: {"type": "string"} for name in names}}
    serde = bound_to(JsonSchemaSerde(schema), "topic", MemoryRegistry())
    assert [field.name for field in fields_of(serde)] == ["a", "b-c", "1st"]


def test_types_of_two_versions_have_one_that_holds_both() -> None:
    assert common_type(["bigint", "bigint"]) == "bigint"
    assert common_type(["double", "bigint"]) == "double"
    assert common_type(["decimal(10,2)", "decimal(12,6)"]) == "decimal(14,6)"
    assert common_type(["decimal(10,2)", "bigint"]) == "decimal(21,2)"
    assert common_type(["decimal(38,2)", "decimal(38,10)"]) == "string"
    assert common_type(["double", "decimal(10,2)"]) == "string"
    assert common_type(["timestamp", "bigint"]) == "string"


def column(serde: Any, value: Any) -> Any:
    """What the only column of a value has."""
    (found,) = columns_of(serde, serde.body(value), [field.name for field in serde.fields()])
    return found


def columns_of(serde: Any, body: bytes, names: list[str]) -> list[Any]:
    registry = MemoryRegistry()
    head = serde.head(registry.id_of("topic-value", serde.schema()))
    types = {field.name: field.sql_type for field in serde.fields() if field.name in names}
    found = derived_columns([head + body], types, StoreValues((), registry).reader())
    return [column[0].as_py() for column in found]
