"""The fields of an Avro record as columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storekeeper.schemas.column_fields import JSON_TEXT, common_type, decimal_type
from storekeeper.serdes.value_field import ValueField

_SQL_TYPES = {
    "boolean": "boolean", "int": "bigint", "long": "bigint", "float": "double", "double": "double", "string": "string"
}  # fmt: skip
_LOGICAL = {"date": "date", "timestamp-millis": "timestamp", "timestamp-micros": "timestamp"}
_AS_TEXT = frozenset({"time-millis", "time-micros", "local-timestamp-millis", "local-timestamp-micros"})
"""Times without a day or without a zone: no column type that every reader has holds them."""


def avro_fields(parsed: Any) -> tuple[ValueField, ...]:
    """The fields of a record; none of any other schema.

    A field that has a default, or may be null, is nullable: a row that is older than the field lacks it.
    """
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        return ()
    named = parsed.get("__named_schemas", {})
    return tuple(
        ValueField(
            field["name"],
            _sql_type(field["type"], named),
            nullable="default" in field or _may_be_null(field["type"]),
            meaning=field.get("doc") or "",
        )
        for field in parsed["fields"]
    )


def _may_be_null(kind: Any) -> bool:
    return kind == "null" or (isinstance(kind, list) and any(map(_may_be_null, kind)))


def _sql_type(kind: Any, named: Mapping[str, Any]) -> str:
    if isinstance(kind, list):  # a union
        present = [_sql_type(part, named) for part in kind if part != "null"]
        return common_type(present or [JSON_TEXT])
    if not isinstance(kind, dict):
        return _sql_type(named[kind], named) if kind in named else _SQL_TYPES.get(kind, JSON_TEXT)
    logical = kind.get("logicalType")
    if logical == "decimal":
        return decimal_type(kind["precision"], kind.get("scale", 0))
    return JSON_TEXT if logical in _AS_TEXT else _LOGICAL.get(str(logical)) or _sql_type(kind["type"], named)
