"""The contract of a serde, and the serdes of bytes, texts and integers.

Integers whose bytes sort as their values do.

Byte layout: big-endian with the sign bit flipped, so that -1 (7f ff..) sorts before 0 (80 00..). `Int64Serde` is
therefore not Kafka's LongSerializer, whose negative numbers sort after the positive.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from storekeeper.errors import SerializationError, StateError

T = TypeVar("T")


class Serde(Protocol[T]):
    """Turns values of one type into bytes and back. Stateless and thread-safe.

    None never reaches a serde: stores take None as "delete" and never store it.
    """

    def serialize(self, value: T) -> bytes:
        """The bytes of `value`.

        Raises:
            SerializationError: the value is of a type, or out of a range, that this serde can't bring back unchanged.
        """
        ...

    def deserialize(self, data: bytes) -> T:
        """The value behind `data`.

        Raises:
            SerializationError: `data` was not written by this serde.
        """
        ...


class BytesSerde:
    """Bytes as they are. Stores skip the calls for this serde."""

    def serialize(self, value: bytes) -> bytes:
        """The same bytes.

        Raises:
            SerializationError: it is something else, such as a bytearray, which could change after the write.
        """
        if type(value) is not bytes:
            raise SerializationError(f"expected bytes, not {type(value).__name__}")
        return value

    def deserialize(self, data: bytes) -> bytes:
        """The same bytes, whatever they are."""
        return data

    def is_plain(self, value: bytes) -> bool:
        """Whether it is bytes. See `RoundTrip`."""
        return type(value) is bytes

    write = serialize

    def as_read(self, value: bytes) -> tuple[bytes, bytes]:
        """The same bytes, twice. Raises as `serialize`."""
        return value, self.serialize(value)


class Utf8Serde:
    """Text as UTF-8. Byte order is the order of code points."""

    def serialize(self, value: str) -> bytes:
        """The text's UTF-8 bytes.

        Raises:
            SerializationError: it is not text, or has a lone surrogate, which UTF-8 has no bytes for.
        """
        try:
            return value.encode()
        except (AttributeError, UnicodeEncodeError) as error:
            kind = type(value).__name__
            way_on = f"pass keys={kind}, or values={kind}, where it is made"
            msg = "text with lone surrogates is not UTF-8" if kind == "str" else f"expected text, not {kind}: {way_on}"
            raise SerializationError(msg) from error

    def deserialize(self, data: bytes) -> str:
        """The text.

        Raises:
            SerializationError: the bytes are not UTF-8.
        """
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise SerializationError(f"{len(data)} bytes are not UTF-8 text") from error

    def is_plain(self, value: str) -> bool:
        """Whether it is text of ASCII characters. See `RoundTrip`."""
        return type(value) is str and value.isascii()

    write = serialize

    def as_read(self, value: str) -> tuple[str, bytes]:
        """The text, without what a subclass adds, and its bytes. Raises as `serialize`."""
        data = self.serialize(value)
        return data.decode(), data


def read_by(serde: Serde[T], data: bytes) -> T:
    """The value behind `data`, read by a serde that may be the user's own.

    Raises:
        SerializationError: the serde raised it, or anything that is none of this library's errors.
    """
    try:
        return serde.deserialize(data)
    except StateError:
        raise
    except Exception as error:
        msg = f"{len(data)} bytes can't be read by {type(serde).__name__} ({type(error).__name__}: {error})"
        raise SerializationError(msg) from error


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
            raise SerializationError(f"{value!r} is not a signed 64-bit integer") from error

    def deserialize(self, data: bytes) -> int:
        """The number.

        Raises:
            SerializationError: there are more or fewer bytes than eight.
        """
        if len(data) != 8:
            raise SerializationError(f"expected 8 bytes, not {len(data)}")
        return int.from_bytes(data, "big") - self._OFFSET
