"""JSON values with a JSON Schema. They are read as any other JSON, and must also be valid by the schema.

A topic's values are in Confluent's wire format: see `bound`. Values for the app's own use are the JSON alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import jsonschema.exceptions
import jsonschema.validators
import msgspec
from referencing import Registry

from storekeeper.errors import ConfigurationError, SerializationError
from storekeeper.schemas.column_fields import numbers_of
from storekeeper.schemas.framing import framed, head_of
from storekeeper.schemas.json_schema_fields import json_schema_fields
from storekeeper.schemas.registry import SchemaRegistry
from storekeeper.serdes.json import JsonSerde
from storekeeper.serdes.reasons import reason_of
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import StructSerde
from storekeeper.serdes.value_field import ValueField

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema

T = TypeVar("T")
Declared = str | Mapping[str, Any]


class JsonSchemaSerde(Generic[T]):
    """Values of one JSON Schema, which refers to nothing outside of itself.

    Args:
        schema: the schema, as JSON text or as its content.
        type_: the type of the values, such as a `msgspec.Struct`. None: values are as JSON has them.

    Raises:
        ConfigurationError: the schema is not a JSON Schema.
    """

    @overload
    def __init__(self: JsonSchemaSerde[Any], schema: Declared, type_: None = None) -> None: ...

    @overload
    def __init__(self, schema: Declared, type_: type[T]) -> None: ...

    def __init__(self, schema: Declared, type_: type[T] | None = None) -> None:
        self._content = schema if isinstance(schema, str) else json.dumps(schema)
        try:
            content = json.loads(self._content)
            kind = jsonschema.validators.validator_for(content, default=jsonschema.validators.Draft202012Validator)
            kind.check_schema(content)
        except (ValueError, jsonschema.exceptions.SchemaError) as error:
            raise ConfigurationError(f"not a JSON Schema: {error}") from error
        # An empty registry: nothing is fetched from the addresses that a schema names.
        self._fields = json_schema_fields(content)
        self._names = frozenset(_property_names(content))
        self._first_error = kind(content, registry=Registry()).iter_errors
        self._json: Serde[Any] = JsonSerde() if type_ is None else StructSerde(type_)
        self.type = type_

    def schema(self) -> Schema:
        """The schema as a registry takes it."""
        from confluent_kafka.schema_registry import Schema  # noqa: PLC0415 (specs are imported without it)

        return Schema(self._content, "JSON")

    def fields(self) -> tuple[ValueField, ...]:
        """The object's properties as columns."""
        return self._fields

    def numbers(self) -> frozenset[str]:
        """The properties that the schema itself says to be numbers."""
        return numbers_of(self.fields())

    def head(self, schema_id: int) -> bytes:
        """What is in front of each value of a topic."""
        return head_of(schema_id)

    def body(self, value: T) -> bytes:
        """The value as JSON.

        Raises:
            SerializationError: it has no JSON form, or is not valid by the schema.
        """
        data = self._json.serialize(value)
        self._check(data)
        return data

    def value(self, data: bytes, registry: SchemaRegistry) -> T:
        """A topic's value. This serde's own schema decides, whichever schema it was written with.

        Raises:
            SerializationError: it is not JSON, not valid by the schema, or not of this serde's type.
        """
        del registry
        return self.deserialize(framed(data)[1])

    def serialize(self, value: T) -> bytes:
        """As `body`."""
        return self.body(value)

    def deserialize(self, data: bytes) -> T:
        """The value. Raises as `value`."""
        self._check(data)
        value: T = self._json.deserialize(data)
        return value

    def _check(self, data: bytes) -> None:
        try:
            error = next(self._first_error(msgspec.json.decode(data)), None)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            raise SerializationError(f"{len(data)} bytes are not a JSON document: {reason_of(problem)}") from None
        except Exception as problem:  # such as a reference to a schema elsewhere
            raise SerializationError(f"a JSON Schema can't be used on a value ({type(problem).__name__})") from problem
        if error is not None:
            place = "$" + "".join(map(self._step, error.absolute_path))
            raise SerializationError(f"a value isn't valid by its JSON Schema, at {place}: rule `{error.validator}`")

    def _step(self, part: str | int) -> str:
        """A step of a path. The name of a field is a part of the value, unless the schema has it."""
        if isinstance(part, int):
            return f"[{part}]"
        return f".{part}" if part in self._names else "[...]"


def _property_names(rule: Any) -> Iterator[str]:
    """The names of the properties that a schema has anywhere."""
    waiting = [rule]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            properties = part.get("properties")
            yield from properties if isinstance(properties, dict) else ()
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
