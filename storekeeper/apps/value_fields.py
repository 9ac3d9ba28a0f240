"""The columns of a store's snapshots, from the type or the schema of its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import inspect

from storekeeper.errors import ConfigurationError
from storekeeper.schemas.bound import BoundSerde
from storekeeper.schemas.column_fields import JSON_TEXT, column_fields, common_type
from storekeeper.schemas.json_schema_fields import json_schema_fields
from storekeeper.schemas.sql_types import decimal_size
from storekeeper.serdes.struct import StructSerde
from storekeeper.serdes.value_field import ValueField

_SQL_TYPES: dict[type[inspect.Type], str] = {
    inspect.IntType: "bigint",
    inspect.FloatType: "double",
    inspect.BoolType: "boolean",
    inspect.DateType: "date",
}
"""All others are text, and what has parts is text in JSON."""
_OBJECTS = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType)


def fields_of(serde: Any) -> tuple[ValueField, ...]:
    """The fields of the values of a serde that can be columns; none if they aren't objects or records.

    A schema says which fields there are. A struct beside it may say more about each, as in `value_fields`.

    Raises:
        ConfigurationError: a field's metadata names a SQL type that no column has.
    """
    if isinstance(serde, BoundSerde):
        return _with_struct(column_fields(serde.inner.fields()), getattr(serde.inner, "type", None))
    if not isinstance(serde, StructSerde):
        return ()
    if hasattr(serde.type, "model_json_schema"):  # a model of pydantic
        return column_fields(json_schema_fields(serde.type.model_json_schema(mode="serialization")))
    return column_fields(value_fields(serde.type)) if _is_object(serde.type) else ()


def value_fields(rows: Any) -> tuple[ValueField, ...]:
    """One field for each field of a struct, a data class or a TypedDict, under its name in JSON.

    The SQL type follows from the field's type: `int` is bigint, `float` double, `bool` boolean, `date` date, `datetime`
    timestamp, and an enum what its values are. All others are text: a `Decimal` with all its digits, and lists, dicts
    and nested structs in JSON. `msgspec.Meta(extra={"sql": "decimal(18,4)"})` gives another type. A field that may be
    None or left out is nullable. `Meta(ge=0)` means that it is never negative; where rows may break that and must
    still be read, `extra={"never_negative": True}` makes it an expectation. A field with `extra={"only_grows": True}`
    never becomes less. `Meta(description=...)` says what the field holds.

    A column of the default type is null where a row has a whole number beyond 64 bits, or a time without a zone.

    Raises:
        ConfigurationError: rows are not JSON objects, or a field's metadata names a SQL type that no column has.
    """
    shape: Any = inspect.type_info(rows)
    if not isinstance(shape, _OBJECTS) or getattr(shape, "array_like", False):
        msg = f"rows of type {rows.__name__} are not JSON objects: use a msgspec.Struct that is not array_like"
        raise ConfigurationError(msg)
    leaves_out = getattr(getattr(rows, "__struct_config__", None), "omit_defaults", False)
    leaves_out = leaves_out or isinstance(shape, inspect.TypedDictType)
    return tuple(
        _field(
            rows.__name__, field.encode_name, _unwrapped(field.type),
            may_be_missing=(leaves_out and not field.required) or field.default is msgspec.UNSET,
        ) for field in shape.fields
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Unwrapped:
    """A field's type without its metadata and its union with None."""

    kind: inspect.Type
    nullable: bool
    extra: dict[str, Any]
    meaning: str = ""


def _unwrapped(kind: inspect.Type) -> _Unwrapped:
    if isinstance(kind, inspect.Metadata):
        inner = _unwrapped(kind.type)
        meaning = (kind.extra_json_schema or {}).get("description", inner.meaning)
        return _Unwrapped(inner.kind, inner.nullable, inner.extra | (kind.extra or {}), meaning)
    if isinstance(kind, inspect.UnionType):
        present = [part for part in kind.types if not isinstance(part, inspect.NoneType)]
        nullable = len(present) < len(kind.types)
        inner = _unwrapped(present[0]) if len(present) == 1 else _Unwrapped(kind, nullable=nullable, extra={})
        return replace(inner, nullable=inner.nullable or nullable)
    return _Unwrapped(kind, nullable=isinstance(kind, inspect.AnyType | inspect.NoneType | inspect.RawType), extra={})


def _field(rows: str, name: str, annotation: _Unwrapped, *, may_be_missing: bool) -> ValueField:
    sql_type = annotation.extra.get("sql") or _sql_type(annotation.kind)
    decimal_size(sql_type)  # refuses an invalid type
    if sql_type == JSON_TEXT and (_is_never_negative(annotation) or _only_grows(annotation)):
        raise ConfigurationError(
            f"field {name} of {rows} is text in snapshots, which has no order: leave never_negative and only_grows "
            'out, or say which number it is with msgspec.Meta(extra={"sql": "decimal(18,4)"})'
        )
    return ValueField(
        name,
        sql_type,
        nullable=annotation.nullable or may_be_missing,
        never_negative=_is_never_negative(annotation),
        only_grows=_only_grows(annotation),
        meaning=annotation.meaning,
    )


def _sql_type(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata):
        return _sql_type(kind.type)
    if isinstance(kind, inspect.UnionType):
        return common_type(_sql_type(part) for part in kind.types if not isinstance(part, inspect.NoneType))
    if isinstance(kind, inspect.DateTimeType):
        return JSON_TEXT if kind.tz is False else "timestamp"
    if isinstance(kind, inspect.EnumType | inspect.LiteralType):
        values = [one.value for one in kind.cls] if isinstance(kind, inspect.EnumType) else kind.values
        return "bigint" if all(isinstance(value, int) for value in values) else JSON_TEXT
    return _SQL_TYPES.get(type(kind), JSON_TEXT)


def _with_struct(fields: tuple[ValueField, ...], rows: Any) -> tuple[ValueField, ...]:
    """The fields of a schema with what a struct says about them."""
    if not _is_object(rows):
        return fields
    shape: Any = inspect.type_info(rows)
    declared = {field.encode_name: _unwrapped(field.type) for field in shape.fields}
    return tuple(_with_more(field, declared[field.name]) if field.name in declared else field for field in fields)


def _with_more(field: ValueField, declared: _Unwrapped) -> ValueField:
    sql_type = declared.extra.get("sql", field.sql_type)
    decimal_size(sql_type)  # refuses an invalid type
    return replace(
        field,
        sql_type=sql_type,
        never_negative=field.never_negative or _is_never_negative(declared),
        only_grows=_only_grows(declared),
        meaning=declared.meaning or field.meaning,
    )


def _is_object(rows: Any) -> bool:
    """Whether values of a type are JSON objects with fields that are known."""
    if rows is None or hasattr(rows, "model_json_schema"):
        return False
    shape = inspect.type_info(rows)
    return isinstance(shape, _OBJECTS) and not getattr(shape, "array_like", False)


def _is_never_negative(annotation: _Unwrapped) -> bool:
    return _is_at_least_0(annotation.kind) or bool(annotation.extra.get("never_negative"))


def _only_grows(annotation: _Unwrapped) -> bool:
    return bool(annotation.extra.get("only_grows"))


def _is_at_least_0(kind: inspect.Type) -> bool:
    if not isinstance(kind, inspect.IntType | inspect.FloatType):
        return False
    return any(bound is not None and bound >= 0 for bound in (kind.ge, kind.gt))
