"""Confluent's wire format.

Byte layout: 0, then the id of the writer's schema as uint32, big-endian; for Protobuf the message's place in its file;
then the value in the format.
"""

from __future__ import annotations

from storekeeper.errors import SerializationError

MAGIC = b"\0"
HEAD_BYTES = 5


def head_of(schema_id: int) -> bytes:
    """What is in front of a value of a schema."""
    return MAGIC + schema_id.to_bytes(HEAD_BYTES - 1, "big")


def framed(data: bytes) -> tuple[int, bytes]:
    """The schema's id, and what follows it.

    Raises:
        SerializationError: the bytes don't begin as the wire format does.
    """
    if len(data) < HEAD_BYTES or not data.startswith(MAGIC):
        msg = f"{len(data)} bytes don't begin with a 0 and the id of a schema: no serializer of a registry wrote them"
        raise SerializationError(msg)
    return int.from_bytes(data[1:HEAD_BYTES], "big"), data[HEAD_BYTES:]
