"""Avro records without a container or registry header: the schema is known to both sides. Needs the extra `avro`."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import fastavro

from state.errors import ConfigurationError, SerializationError

Schema = Mapping[str, Any]


class AvroSerde:
    """One Avro schema. To read what an older schema wrote, put one serde per version into a `VersionedSerde`.

    Raises:
        ConfigurationError: the schema is no Avro schema.
    """

    def __init__(self, schema: Schema) -> None:
        try:
            self._schema = fastavro.parse_schema(dict(schema))
        except Exception as error:
            msg = f"not an Avro schema: {error}"
            raise ConfigurationError(msg) from error

    def serialize(self, value: Mapping[str, Any]) -> bytes:
        """The record's Avro binary encoding.

        Raises:
            SerializationError: the record doesn't fit the schema, or has fields that the schema doesn't know.
        """
        buffer = io.BytesIO()
        try:
            fastavro.schemaless_writer(buffer, self._schema, value, strict=True)
        except Exception as error:
            msg = f"the record doesn't fit its Avro schema: {error}"
            raise SerializationError(msg) from error
        return buffer.getvalue()

    def deserialize(self, data: bytes) -> dict[str, Any]:
        """The record.

        Raises:
            SerializationError: the bytes don't decode, or some are left over.
        """
        buffer = io.BytesIO(data)
        try:
            record: Any = fastavro.schemaless_reader(buffer, self._schema, None)
        except Exception as error:
            msg = f"{len(data)} bytes don't decode by their Avro schema: {error}"
            raise SerializationError(msg) from error
        if buffer.tell() != len(data):
            msg = f"{len(data) - buffer.tell()} bytes are left over after an Avro record: another schema wrote it"
            raise SerializationError(msg)
        return record
