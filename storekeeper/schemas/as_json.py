"""Shows a value of any schema of the registry as JSON, in msgspec's format, or as a dict of fields.

Decimals are numbers with all their digits, times are in ISO 8601, bytes in base64. Protobuf follows its own mapping to
JSON, with the names of the file.
"""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from storekeeper.errors import SerializationError
from storekeeper.schemas import avro, protobuf
from storekeeper.schemas.framing import framed
from storekeeper.schemas.protobuf import with_integers
from storekeeper.schemas.registry import SchemaRegistry
from storekeeper.serdes.json import json_fields

_encode = msgspec.json.Encoder(decimal_format="number").encode


class JsonView:
    """Reads with the schemas that values were written with."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry

    def prepare(self, schema_id: int) -> None:
        """Makes sure that `json_of` needs no request for values of a schema. Raises as it does."""
        parse = {"AVRO": avro.parsed, "PROTOBUF": protobuf.file_of}.get(self._registry.schema(schema_id).schema_type)
        if parse is not None:
            self._registry.parsed(schema_id, parse)

    def json_of(self, data: bytes) -> bytes:
        """A topic's value as JSON.

        Raises:
            SerializationError: the bytes are none of the schema that they name, or it can't be used.
            UnknownSchemaError: the registry has no such schema.
            SchemaRegistryUnavailableError: the registry doesn't answer.
        """
        schema_id, body = framed(data)
        kind = self._registry.schema(schema_id).schema_type
        if kind == "AVRO":
            return _encoded(self._of_avro(schema_id, body))
        return _encoded(_plain(self._of_protobuf(data))) if kind == "PROTOBUF" else _of_json(body)

    def fields_of(self, data: bytes) -> dict[str, Any]:
        """The fields of a topic's value by name; none if it is not a record. Numbers and times are not text.

        Raises as `json_of`.
        """
        schema_id, body = framed(data)
        kind = self._registry.schema(schema_id).schema_type
        if kind == "AVRO":
            content = self._of_avro(schema_id, body)
            return content if isinstance(content, dict) else {}
        if kind == "PROTOBUF":
            message = self._of_protobuf(data)
            return with_integers(_plain(message), message.DESCRIPTOR)
        return json_fields(body)

    def _of_avro(self, schema_id: int, body: bytes) -> Any:
        return avro.read(body, self._registry.parsed(schema_id, avro.parsed), None)

    def _of_protobuf(self, data: bytes) -> Message:
        schema_id, indexes, body = protobuf.split(data)
        file = self._registry.parsed(schema_id, protobuf.file_of)
        if file is None:
            raise SerializationError("the registry has a Protobuf schema as text alone, which can't be used")
        try:
            return GetMessageClass(protobuf.message_at(file, indexes)).FromString(body)
        except (DecodeError, ValueError, TypeError) as error:
            raise SerializationError("a value is not a message of its schema") from error


def _encoded(content: Any) -> bytes:
    try:
        return _encode(content)
    except TypeError as error:
        raise SerializationError("a part of an Avro record has no JSON form") from error


def _plain(message: Message) -> dict[str, Any]:
    try:
        return json_format.MessageToDict(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
    except (json_format.Error, ValueError, TypeError) as error:
        raise SerializationError("a value is not a message of its schema") from error


def _of_json(body: bytes) -> bytes:
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise SerializationError("a value of a JSON Schema is not JSON") from error
    return body
