"""The contract of a serde, and the one that leaves bytes as they are."""

from __future__ import annotations

from typing import Protocol, TypeVar

from state.errors import SerializationError

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
            msg = f"expected text without lone surrogates, not {type(value).__name__}"
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
