"""Integers whose bytes sort as their values do.

Byte layout: big-endian with the sign bit flipped, so that -1 (7f ff..) sorts before 0 (80 00..). `Int64Serde` is
therefore not Kafka's LongSerializer, whose negative numbers sort after the positive.
"""

from __future__ import annotations

from storekeeper.errors import SerializationError


class Int64Serde:
    """-2^63 to 2^63 - 1 in eight bytes, sign bit flipped."""

    _OFFSET = 1 << 63

    def serialize(self, value: int) -> bytes:
        """The number, moved up by 2^63, big-endian.

        Raises:
            SerializationError: it is not an integer in -2^63 to 2^63 - 1.
        """
        try:
            return (value + self._OFFSET).to_bytes(8, "big")
        except (OverflowError, TypeError, AttributeError) as error:
            msg = f"{value!r} is not a signed 64-bit integer"
            raise SerializationError(msg) from error

    def deserialize(self, data: bytes) -> int:
        """The number.

        Raises:
            SerializationError: there are more or fewer bytes than eight.
        """
        if len(data) != 8:
            msg = f"expected 8 bytes, not {len(data)}"
            raise SerializationError(msg)
        return int.from_bytes(data, "big") - self._OFFSET
