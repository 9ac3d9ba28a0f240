"""Avro values, and their fields as columns. A decimal of the schema is a `Decimal` with all its digits, never a float.

A topic's values are in Confluent's wire format: see `bound`. Byte layout of values for the app's own use: the first 8
bytes of the SHA-256 of the schema's JSON, then the value. (Avro's own fingerprint is the same for two scales of a
decimal.)

Defaults of an Avro schema as values.

A schema has them in JSON: a decimal as the characters of its bytes, a time as a number. fastavro gives them to readers,
and takes them from writers, as they are there.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload
from uuid import UUID

import fastavro
import fastavro.schema
import msgspec

from storekeeper.errors import ConfigurationError, SerializationError
from storekeeper.schemas.column_fields import JSON_TEXT, common_type, decimal_type, numbers_of
from storekeeper.schemas.framing import framed, head_of
from storekeeper.schemas.registry import SchemaRegistry
from storekeeper.serdes.reasons import reason_of
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


_BYTES = ("bytes", "fixed")


def convert_defaults(parsed: Any) -> None:
    """Puts a value in the place of each default of a parsed schema. One that doesn't fit its type stays."""
    named = dict(parsed.get("__named_schemas", {})) if isinstance(parsed, dict) else {}
    for record in _records([parsed, *named.values()]):
        for field in record["fields"]:
            if "default" in field:
                field["default"] = _value(field["default"], field["type"], named)


def has_shared_defaults(parsed: Any) -> bool:
    """Whether a default can be changed in place: readers give the same object again and again."""
    records = _records([parsed, *(parsed.get("__named_schemas", {}).values() if isinstance(parsed, dict) else ())])
    return any(isinstance(field.get("default"), dict | list) for record in records for field in record["fields"])


def _records(waiting: list[Any]) -> Iterator[dict[str, Any]]:
    """The records in schemas, each once."""
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        waiting += [part[name] for name in ("type", "items", "values") if name in part]
        if part.get("type") in {"record", "error"}:
            waiting += [field["type"] for field in part["fields"]]
            yield part


def _value(default: Any, kind: Any, named: Mapping[str, Any]) -> Any:
    for one in kind if isinstance(kind, list) else [kind]:  # of a union, the first one that fits
        try:
            return _read(_plain(default, one, named), one, named)
        except Exception:  # noqa: S112 (fastavro raises many)
            continue
    return default


def _read(default: Any, kind: Any, named: Mapping[str, Any]) -> Any:
    """A default as it is read when it was written."""
    schema = {
        "type": "record", "name": "one.Default", "fields": [{"name": "default", "type": kind}],
        "__fastavro_parsed": True, "__named_schemas": dict(named),
    }  # fmt: skip
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, {"default": default}, strict=True)
    buffer.seek(0)
    record: Any = fastavro.schemaless_reader(buffer, schema, None)
    return record["default"]


def _plain(default: Any, kind: Any, named: Mapping[str, Any]) -> Any:  # noqa: PLR0911 (one for each kind)
    """A default with bytes in place of the characters for them."""
    if isinstance(kind, list):
        return _plain(default, kind[0], named)
    if isinstance(kind, str) and kind in named:
        return _plain(default, named[kind], named)
    shape = kind.get("type") if isinstance(kind, dict) else kind
    if shape in _BYTES:
        return default.encode("latin-1") if isinstance(default, str) else default
    if isinstance(shape, dict | list):
        return _plain(default, shape, named)
    if shape == "array":
        return [_plain(part, kind["items"], named) for part in default]
    if shape == "map":
        return {key: _plain(part, kind["values"], named) for key, part in default.items()}
    if shape in {"record", "error"}:
        return {
            field["name"]: _plain(default.get(field["name"], field.get("default")), field["type"], named)
            for field in kind["fields"]
        }
    return default


if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema

T = TypeVar("T")
Declared = str | Mapping[str, Any] | Sequence[Any]

_OWN_TYPES = (Decimal, datetime, date, time, UUID, bytes)
"""Types that fastavro reads and writes as they are."""
_OWN_HEAD_BYTES = 8


class AvroSerde(Generic[T]):
    """Values of one Avro schema. Values that another version of it wrote are read by the rules of Avro.

    Args:
        schema: the schema, as JSON text or as its content.
        type_: the type of the values, such as a `msgspec.Struct`. None: values are as fastavro has them, records dicts.

    Raises:
        ConfigurationError: the schema is not an Avro schema.
    """

    @overload
    def __init__(self: AvroSerde[Any], schema: Declared, type_: None = None) -> None: ...

    @overload
    def __init__(self, schema: Declared, type_: type[T]) -> None: ...

    def __init__(self, schema: Declared, type_: type[T] | None = None) -> None:
        content = schema if isinstance(schema, str) else json.dumps(schema)
        try:
            self._parsed = fastavro.parse_schema(json.loads(content))
        except Exception as error:
            raise ConfigurationError(f"not an Avro schema: {error}") from error
        convert_defaults(self._parsed)
        self._copies = type_ is None and has_shared_defaults(self._parsed)
        self._content = content
        self._own_head = hashlib.sha256(json.dumps(json.loads(content)).encode()).digest()[:_OWN_HEAD_BYTES]
        self.type = type_

    def schema(self) -> Schema:
        """The schema as a registry takes it."""
        from confluent_kafka.schema_registry import Schema  # noqa: PLC0415 (specs are imported without it)

        return Schema(self._content, "AVRO")

    def fields(self) -> tuple[ValueField, ...]:
        """The record's fields as columns."""
        return avro_fields(self._parsed)

    def numbers(self) -> frozenset[str]:
        """The record's fields that are numbers, decimals among them; times are text in JSON."""
        return numbers_of(self.fields())

    def head(self, schema_id: int) -> bytes:
        """What is in front of each value of a topic."""
        return head_of(schema_id)

    def body(self, value: T) -> bytes:
        """The record's binary encoding.

        Raises:
            SerializationError: it doesn't fit the schema, or has fields that the schema doesn't know.
        """
        buffer = io.BytesIO()
        plain: Any = value
        try:
            if self.type is not None:
                plain = msgspec.to_builtins(value, builtin_types=_OWN_TYPES)
            fastavro.schemaless_writer(buffer, self._parsed, plain, strict_allow_default=True)
            # It writes 2^40 as an int, which no other reader takes, 1.5 as 1, and None as false.
            if not fastavro.validate(plain, self._parsed, raise_errors=False):
                raise ValueError
        except Exception as error:  # fastavro raises many, whose texts have parts of the value
            msg = f"a {type(value).__name__} doesn't fit its Avro schema{self._misfits(plain)} ({type(error).__name__})"
            raise SerializationError(msg) from None
        return buffer.getvalue()

    def value(self, data: bytes, registry: SchemaRegistry) -> T:
        """A topic's value, as this serde's schema reads it.

        Raises:
            SerializationError: the bytes are none of that schema, it can't be read as this one, or the value isn't of
                this serde's type.
        """
        schema_id, body = framed(data)
        return self._typed(read(body, registry.parsed(schema_id, parsed), self._parsed))

    def serialize(self, value: T) -> bytes:
        """The record for the app's own use. Raises as `body`."""
        return self._own_head + self.body(value)

    def deserialize(self, data: bytes) -> T:
        """The record.

        Raises:
            SerializationError: another schema wrote it, or the bytes don't decode.
        """
        if not data.startswith(self._own_head):
            raise SerializationError(
                f"{len(data)} bytes were not written by this Avro schema: the app's next version needs a new generation"
            )
        return self._typed(read(data[len(self._own_head) :], self._parsed, None))

    def _typed(self, record: Any) -> T:
        if self.type is None:
            return cast("T", deepcopy(record) if self._copies else record)
        try:
            return msgspec.convert(record, self.type, builtin_types=_OWN_TYPES)
        except Exception as error:  # a type may have code of its own
            msg = f"an Avro record is not a {getattr(self.type, '__name__', self.type)}: {reason_of(error)}"
            raise SerializationError(msg) from error  # which says whether the value is to blame

    def _misfits(self, record: Any) -> str:
        """The names of the fields that don't fit, where that can be said."""
        fields = self._parsed.get("fields") if isinstance(self._parsed, dict) else None
        if not fields or not isinstance(record, dict):
            return ""
        due = {field["name"]: field for field in fields}
        odd = [name for name in record if name not in due]
        odd += [name for name, field in due.items() if not _fits(record, field)]
        return f": {', '.join(map(str, odd))}" if odd else ""


def parsed(schema: Schema, registry: SchemaRegistry) -> Any:
    """A schema of the registry, as fastavro takes it, with the schemas that it refers to.

    Raises:
        SerializationError: it is not an Avro schema.
    """
    if schema.schema_type != "AVRO":
        raise SerializationError(f"the value's schema is of type {schema.schema_type}, not AVRO")
    named: dict[str, Any] = {}
    try:
        for _, other in registry.references(schema):
            fastavro.parse_schema(json.loads(other.schema_str or ""), named_schemas=named)
        return fastavro.parse_schema(json.loads(schema.schema_str or ""), named_schemas=named)
    except (ValueError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise SerializationError("the value's schema is not an Avro schema") from error


def read(body: bytes, writer: Any, reader: Any) -> Any:
    """A datum.

    Raises:
        SerializationError: the bytes don't decode, or some are left over.
    """
    buffer = io.BytesIO(body)
    try:
        record: Any = fastavro.schemaless_reader(buffer, writer, reader)
    except Exception as error:  # fastavro raises many, whose texts may have parts of the value
        msg = f"{len(body)} bytes don't decode by their Avro schema ({type(error).__name__})"
        raise SerializationError(msg) from None
    if buffer.tell() != len(body):
        msg = f"{len(body) - buffer.tell()} bytes are left over after an Avro record: another schema wrote it"
        raise SerializationError(msg)
    return record


def _fits(record: Mapping[str, Any], field: Mapping[str, Any]) -> bool:
    if field["name"] not in record:
        return "default" in field
    try:
        return bool(fastavro.validate(record[field["name"]], field["type"], raise_errors=False))
    except Exception:
        return True
