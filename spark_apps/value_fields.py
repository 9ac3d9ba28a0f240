"""The columns of a store's snapshots, from the type or the schema of its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import inspect

from state.errors import ConfigurationError
from state.schemas.bound import BoundSerde
from state.schemas.column_fields import column_fields
from state.serdes.struct import StructSerde
from state.serdes.value_field import ValueField
from state.snapshots.sql_types import decimal_size

_SQL_TYPES: dict[type[inspect.Type], str] = {
    inspect.StrType: "string",
    inspect.BytesType: "string",  # base64
    inspect.IntType: "bigint",
    inspect.FloatType: "double",
    inspect.BoolType: "boolean",
}


def fields_of(serde: Any) -> tuple[ValueField, ...]:
    """The fields of the values of a serde; none if they aren't objects or records.

    A schema says which fields there are. A struct beside it may say more about each, as in `value_fields`.

    Raises:
        ConfigurationError: a field of a struct has no SQL type.
    """
    if isinstance(serde, BoundSerde):
        return _with_struct(column_fields(serde.inner.fields()), getattr(serde.inner, "type", None))
    return value_fields(serde.type) if isinstance(serde, StructSerde) and _is_object(serde.type) else ()


def value_fields(rows: type[msgspec.Struct]) -> tuple[ValueField, ...]:
    """One field for each field of the struct, under its name in JSON.

    The SQL type follows from the field's type: `str` is string, `int` bigint, `float` double, `bool` boolean, `bytes`
    string. `msgspec.Meta(extra={"sql": "timestamp"})` gives another one; a `Decimal` needs one, such as
    `decimal(18,4)`. A field that may be None is nullable. `Meta(ge=0)` means that it is never negative; where rows may
    break that and must still be read, `extra={"never_negative": True}` makes it an expectation. A field with
    `extra={"only_grows": True}` never becomes less. `Meta(description=...)` says what the field holds.

    Args:
        rows: the type of the store's values.

    Raises:
        ConfigurationError: rows are not JSON objects, or a field has no SQL type.
    """
    shape = inspect.type_info(rows)
    if not isinstance(shape, inspect.StructType) or shape.array_like:
        msg = f"rows of type {rows.__name__} are not JSON objects: use a msgspec.Struct that is not array_like"
        raise ConfigurationError(msg)
    return tuple(_field(rows.__name__, field.encode_name, _unwrapped(field.type)) for field in shape.fields)


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
        if len(present) == 1:
            inner = _unwrapped(present[0])
            return replace(inner, nullable=True)
    return _Unwrapped(kind, nullable=False, extra={})


def _field(rows: str, name: str, found: _Unwrapped) -> ValueField:
    sql_type = found.extra.get("sql") or _SQL_TYPES.get(type(found.kind))
    if sql_type is None:
        msg = (
            f"field {name} of {rows} has no SQL type: use str, int, float, bool or bytes, "
            'or say which with msgspec.Meta(extra={"sql": "decimal(18,4)"})'
        )
        raise ConfigurationError(msg)
    decimal_size(sql_type)  # refuses an invalid type
    return ValueField(
        name,
        sql_type,
        nullable=found.nullable,
        never_negative=_is_never_negative(found),
        only_grows=_only_grows(found),
        meaning=found.meaning,
    )


def _with_struct(fields: tuple[ValueField, ...], rows: Any) -> tuple[ValueField, ...]:
    """The fields of a schema with what a struct says about them."""
    if not _is_object(rows):
        return fields
    shape: Any = inspect.type_info(rows)
    said = {field.encode_name: _unwrapped(field.type) for field in shape.fields}
    return tuple(_with_more(field, said[field.name]) if field.name in said else field for field in fields)


def _with_more(field: ValueField, said: _Unwrapped) -> ValueField:
    sql_type = said.extra.get("sql", field.sql_type)
    decimal_size(sql_type)  # refuses an invalid type
    return replace(
        field,
        sql_type=sql_type,
        never_negative=field.never_negative or _is_never_negative(said),
        only_grows=_only_grows(said),
        meaning=said.meaning or field.meaning,
    )


def _is_object(rows: Any) -> bool:
    """Whether values of a type are JSON objects: only these have fields."""
    return isinstance(rows, type) and issubclass(rows, msgspec.Struct) and not rows.__struct_config__.array_like


def _is_never_negative(found: _Unwrapped) -> bool:
    return _is_at_least_0(found.kind) or bool(found.extra.get("never_negative"))


def _only_grows(found: _Unwrapped) -> bool:
    return bool(found.extra.get("only_grows"))


def _is_at_least_0(kind: inspect.Type) -> bool:
    if not isinstance(kind, inspect.IntType | inspect.FloatType):
        return False
    return any(bound is not None and bound >= 0 for bound in (kind.ge, kind.gt))
