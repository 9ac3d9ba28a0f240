"""A value together with the timestamp of the record that made it.

Byte layout: int64 timestamp in epoch milliseconds, big-endian two's complement as in Kafka Streams; then the value.
"""

from __future__ import annotations

import struct
from typing import Generic, TypeVar

import msgspec

from storekeeper.errors import InvalidTimestampError, SerializationError
from storekeeper.serdes.serde import Serde

T = TypeVar("T")
UNKNOWN_TIMESTAMP_MS = -1
"""The timestamp of a value that was written before timestamps were kept."""

_STAMP = struct.Struct(">q")
STAMP_BYTES = _STAMP.size
"""How many bytes the timestamp takes."""


class ValueAndTimestamp(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A value and the epoch milliseconds of the record that made it, -1 if unknown.

    A struct is made in a quarter of the time that a named tuple takes: each record makes one.
    """

    value: T
    timestamp_ms: int


class TimestampedSerde(Generic[T]):
    """Wraps a value's serde with a timestamp in front."""

    def __init__(self, value_serde: Serde[T]) -> None:
        self._serialize = value_serde.serialize
        self._deserialize = value_serde.deserialize

    def serialize(self, value: ValueAndTimestamp[T]) -> bytes:
        """Timestamp, then value.

        Raises:
            InvalidTimestampError: the timestamp is not an integer, below -1, or doesn't fit 64 bits.
            SerializationError: it is not a pair of a value and a timestamp, or the value's serde refuses it.
        """
        pair: object = value
        if not isinstance(pair, ValueAndTimestamp):
            raise SerializationError(f"expected a ValueAndTimestamp, not {type(pair).__name__}")
        plain, timestamp_ms = value.value, value.timestamp_ms
        if not isinstance(timestamp_ms, int) or not UNKNOWN_TIMESTAMP_MS <= timestamp_ms < 1 << 63:
            msg = f"timestamp {timestamp_ms!r} is not a time in epoch milliseconds; pass 0 or more, or -1 for unknown"
            raise InvalidTimestampError(msg)
        return _STAMP.pack(timestamp_ms) + self._serialize(plain)

    def deserialize(self, data: bytes) -> ValueAndTimestamp[T]:
        """The value and its timestamp.

        Raises:
            SerializationError: the bytes are too short for a timestamp, or the value's serde refuses the rest.
        """
        if len(data) < _STAMP.size:
            raise SerializationError(f"{len(data)} bytes can't hold a timestamp: the value was written without one")
        return ValueAndTimestamp(self._deserialize(data[8:]), _STAMP.unpack_from(data)[0])


def stamped(plain: bytes | None, timestamp_ms: int) -> bytes | None:
    """Puts a timestamp in front of a serialized value. None stays None."""
    return None if plain is None else _STAMP.pack(timestamp_ms) + plain


def stamp_of(data: bytes) -> int:
    """The timestamp in front of a serialized value."""
    timestamp_ms: int = _STAMP.unpack_from(data)[0]
    return timestamp_ms
