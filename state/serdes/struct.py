"""Typed values as JSON, by msgspec: structs, data classes, numbers, decimals, lists of them."""

from __future__ import annotations

from math import isfinite
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import inspect

from state.errors import ConfigurationError, SerializationError
from state.serdes.serde import BytesSerde, Serde, Utf8Serde

T = TypeVar("T")

_N, _I = b"NI"
_MAY_HOLD_FLOATS = (inspect.FloatType, inspect.AnyType, inspect.CustomType)


class StructSerde(Generic[T]):
    """One type of value. A decimal is written as a number with all its digits, and read without rounding.

    NaN and infinities are refused, because JSON has no number for them.

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
        self._may_hold_floats = _may_hold_floats(inspect.type_info(type_))
        self.type = type_

    def serialize(self, value: T) -> bytes:
        """The value as JSON.

        Raises:
            SerializationError: a part of it has no JSON form, such as NaN.
        """
        try:
            data = self._encode(value)
            # Of a decimal the encoder writes NaN and infinities as they are. Looking for a letter takes a tenth of the
            # time.
            if (_N in data and b"NaN" in data) or (_I in data and b"Infinity" in data):
                self._decode(data)
            # Of a float it writes them as null.
            if self._may_hold_floats and data.find(b"null") >= 0:
                _check_floats(msgspec.to_builtins(value, str_keys=True, enc_hook=_nothing))
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


def _may_hold_floats(described: inspect.Type) -> bool:
    """Whether a value of the type that is described may hold a float."""
    seen: set[int] = set()
    parts: list[Any] = [described]
    while parts:
        part = parts.pop()
        if isinstance(part, _MAY_HOLD_FLOATS):
            return True
        if isinstance(part, tuple):
            parts += part
        elif isinstance(part, inspect.Type | inspect.Field) and id(part) not in seen:
            seen.add(id(part))  # a type may contain itself
            parts += msgspec.structs.astuple(part)
    return False


def _check_floats(part: Any) -> None:
    if isinstance(part, float) and not isfinite(part):
        msg = f"{part} is not a JSON number"
        raise ValueError(msg)
    if isinstance(part, dict):
        part = part.values()
    elif not isinstance(part, list | tuple):
        return
    for inner in part:
        _check_floats(inner)


def _nothing(_: object) -> None:
    """Stands for a `msgspec.Raw`, which is JSON already."""


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
