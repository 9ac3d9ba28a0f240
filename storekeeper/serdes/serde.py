"""The contract of a serde, and the one that leaves bytes as they are."""

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
            msg = f"expected bytes, not {type(value).__name__}"
            raise SerializationError(msg)
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
            msg = f"{len(data)} bytes are not UTF-8 text"
            raise SerializationError(msg) from error

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
