"""The fields of a Protobuf message as columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from storekeeper.schemas.column_fields import JSON_TEXT
from storekeeper.serdes.value_field import ValueField

_SQL_TYPES = {
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_INT32: "bigint",
    FieldDescriptor.CPPTYPE_UINT32: "bigint",
    FieldDescriptor.CPPTYPE_INT64: "bigint",
    FieldDescriptor.CPPTYPE_UINT64: "decimal(20,0)",
    FieldDescriptor.CPPTYPE_FLOAT: "double",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
    FieldDescriptor.CPPTYPE_STRING: "string",
}
_LONG = frozenset({FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64})
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)
_JSON_NUMBERS = ("bigint", "double")


def protobuf_fields(message: Descriptor) -> tuple[ValueField, ...]:
    """The fields of a message. All are nullable: a row that is older than a field lacks it."""
    return tuple(ValueField(field.name, _sql_type(field), nullable=True) for field in message.fields)


def protobuf_numbers(message: Descriptor) -> frozenset[str]:
    """The fields that are numbers in a message's JSON, where 64-bit integers are text."""
    return frozenset(
        field.name
        for field in message.fields
        if field.message_type is None and _sql_type(field) in _JSON_NUMBERS and field.cpp_type not in _LONG
    )


def with_integers(plain: dict[str, Any], message: Descriptor) -> dict[str, Any]:
    """A message in JSON's types, whose 64-bit integers are numbers and not text."""
    return plain | {name: int(plain[name]) for name in _long_fields(message) if plain.get(name) is not None}


def _long_fields(message: Descriptor) -> Iterator[str]:
    return (field.name for field in message.fields if not field.is_repeated and _content(field).cpp_type in _LONG)


def _sql_type(field: FieldDescriptor) -> str:
    if field.is_repeated:  # a map too
        return JSON_TEXT
    if field.message_type is not None and field.message_type.full_name == _TIMESTAMP:
        return "timestamp"
    return _SQL_TYPES.get(_content(field).cpp_type, JSON_TEXT)


def _content(field: FieldDescriptor) -> FieldDescriptor:
    """The field, or that of the value which it wraps."""
    wraps = field.message_type is not None and field.message_type.full_name in _WRAPPERS
    return field.message_type.fields_by_name["value"] if wraps else field
