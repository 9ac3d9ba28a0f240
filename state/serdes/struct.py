"""Typed values as JSON, by msgspec: structs, data classes, numbers, decimals, lists of them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

import msgspec

from state.errors import ConfigurationError, SerializationError
from state.serdes.serde import BytesSerde, Serde, Utf8Serde

T = TypeVar("T")

_N, _I = b"NI"


class StructSerde(Generic[T]):
    """One type of value. A decimal is written as a number with all its digits, and read without rounding.

    Attributes:
        type: the type.

    Raises:
        ConfigurationError: msgspec doesn't support this type.
    """

    def __init__(self, type_: type[T]) -> None:
        try:
            self._decoder = msgspec.json.Decoder(type_)
        except (TypeError, NameError) as error:
            msg = f"values of type {type_!r} have no JSON form: use a msgspec.Struct, or pass a serde ({error})"
            raise ConfigurationError(msg) from error
        self._encode = msgspec.json.Encoder(decimal_format="number").encode
        self._decode = self._decoder.decode
        self.type = type_

    def serialize(self, value: T) -> bytes:
        """The value as JSON.

        Raises:
            SerializationError: a part of it has no JSON form.
        """
        try:
            data = self._encode(value)
            # The encoder writes NaN and infinities as they are. Looking for a letter takes a tenth of the time.
            if (_N in data and b"NaN" in data) or (_I in data and b"Infinity" in data):
                self._decode(data)
            return data
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            msg = f"a {type(value).__name__} has no JSON form: {error}"
            raise SerializationError(msg) from error

    def deserialize(self, data: bytes) -> T:
        """The value.

        Raises:
            SerializationError: the bytes are not JSON of this type.
        """
        try:
            return self._decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            msg = f"{len(data)} bytes are not a {getattr(self.type, '__name__', self.type)}: {error}"
            raise SerializationError(msg) from error


def encoded_names(serde: Serde[Any]) -> tuple[str, ...]:
    """The names of the fields that values have as JSON objects; none if the serde is not that of a struct."""
    if isinstance(serde, StructSerde) and isinstance(serde.type, type) and issubclass(serde.type, msgspec.Struct):
        return serde.type.__struct_encode_fields__
    return ()


def serde_of(spec: type[T] | Serde[T]) -> Serde[T]:
    """The serde of a type, or the serde itself: text is UTF-8, bytes stay as they are, the rest is JSON."""
    known: dict[Any, Any] = {str: Utf8Serde(), bytes: BytesSerde()}
    if spec in known:
        return cast("Serde[T]", known[spec])
    if not isinstance(spec, type) and hasattr(spec, "serialize"):
        return spec
    return StructSerde(cast("type[T]", spec))
