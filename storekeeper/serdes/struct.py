"""Typed values as JSON, by msgspec: structs, data classes, numbers, decimals, lists of them; and pydantic's models.

What a serde does, without the calls around it: for values and bytes that it takes.

Where the serde raises a `SerializationError`, these raise any error. Done again by the serde, it says what is wrong.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import inspect

from storekeeper.errors import ConfigurationError, SerializationError
from storekeeper.serdes.plain_check import Check, plain_check
from storekeeper.serdes.reasons import reason_of
from storekeeper.serdes.round_trip import Likeness
from storekeeper.serdes.serde import BytesSerde, Serde, Utf8Serde

T = TypeVar("T")

_SETS = (inspect.SetType, inspect.FrozenSetType)
_OPEN = (inspect.AnyType, inspect.CustomType, inspect.RawType)
_WRITTEN_IN_MANY_WAYS = (
    inspect.FloatType, inspect.DecimalType, inspect.DateTimeType, inspect.DictType, inspect.TypedDictType,
    *_SETS, *_OPEN,
)  # fmt: skip
"""Kinds whose equal values may have different bytes."""
_PLAIN_FORMS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (float, float.__float__),
    (int, int.__int__),
)
"""What values of a subclass are, such as NumPy's floats."""
_NO_NAMES = (
    inspect.BoolType, inspect.NoneType, inspect.DecimalType, inspect.ByteArrayType, inspect.MemoryViewType, *_SETS,
    inspect.ListType, inspect.TupleType, inspect.VarTupleType, inspect.NamedTupleType, inspect.StructType,
    inspect.DataclassType, inspect.TypedDictType, inspect.DictType,
)  # fmt: skip
"""Kinds that can't be keys of a JSON object."""
_MOST_ZEROS = 20


class StructSerde(Generic[T]):
    """One type of value. A decimal is written as a number with all its digits, and read without rounding.

    What is written reads back equal, or it is refused: values of another type than this one, NaN and infinities, and
    what JSON would change, such as a tuple or a date in a `dict`. A type may say what JSON does not: `dict[int, int]`
    reads its keys as numbers. Where the type allows another form of an equal value, it is read in the type's form:
    `11` given for a float reads as `11.0`.

    Attributes:
        type: the type.
        holds_sets: whether values may hold sets, whose order is another one in each process.

    Raises:
        ConfigurationError: values of this type have no JSON form.
    """

    def __init__(self, type_: type[T]) -> None:
        form = _form(type_)
        self.write, self.read = form.encode, form.decode
        self._likeness = form.likeness
        self.is_plain: Check = form.is_plain
        """Whether a value surely reads as it is. No says nothing: `as_read` tells."""
        self.holds_sets = form.holds_sets
        self.type = type_

    def serialize(self, value: T) -> bytes:
        """The value as JSON.

        Raises:
            SerializationError: it would not read back equal.
        """
        return self.write(value) if self.is_plain(value) else self.as_read(value)[1]

    def as_read(self, value: T) -> tuple[T, bytes]:
        """The value as it will be read, and its bytes.

        Raises:
            SerializationError: it would not read back equal.
        """
        try:
            data = self.write(value)
            back = self.read(data)
            difference = self._likeness.difference(value, back)
        except Exception as error:  # a type may have code of its own
            msg = f"a {type(value).__name__} doesn't read back as {_name(self.type)}: {reason_of(error)}"
            raise SerializationError(msg) from error
        if difference is not None:
            msg = f"a {type(value).__name__} doesn't read back equal: {difference}; convert it, or declare its type"
            raise SerializationError(msg)
        return back, data

    def deserialize(self, data: bytes) -> T:
        """The value.

        Raises:
            SerializationError: the bytes are not JSON of this type.
        """
        try:
            return self.read(data)
        except Exception as error:  # a type may have code of its own
            raise SerializationError(f"{len(data)} bytes are not a {_name(self.type)}: {reason_of(error)}") from error


class KeySerde(StructSerde[T]):
    """Keys of one type. Equal keys have equal bytes: `1.0` and `1.00`, `0.0` and `-0.0`, a time in two zones, sets.

    A key of another form, which somebody else wrote, is read as the equal key of this form.
    """

    def __init__(self, type_: type[T]) -> None:
        super().__init__(type_)
        self._likeness = Likeness(subclasses=self._likeness.subclasses, digits=True)
        self._plain_decode = self.read
        self.write = _canonical_key
        self.read = self._canonical
        self.is_plain = _never

    def as_read(self, value: T) -> tuple[T, bytes]:
        """The key in its one form, and its bytes. Raises as it does for values."""
        back, _ = super().as_read(value)
        return back, self.write(back)

    def _canonical(self, data: bytes) -> T:
        key = self._plain_decode(data)
        canonical = self.write(key)
        return key if canonical == data else self._plain_decode(canonical)


class _Form:
    """How values of one type are written and read."""

    def __init__(self, type_: Any) -> None:
        if _is_model(type_):
            self.encode: Callable[[Any], bytes] = _model_json
            self.decode: Callable[[bytes], Any] = type_.model_validate_json
            self.parts: list[Any] = [inspect.CustomType(type_)]
            self.holds_sets = True  # it doesn't tell
            self.is_plain: Check = _never
            self.likeness = Likeness()
            return
        try:
            self.decode = msgspec.json.Decoder(type_, dec_hook=_read_model).decode
            described = inspect.type_info(type_)
        except (TypeError, NameError) as error:
            raise _no_form(type_, error) from error
        self.parts = _parts(described)
        self.holds_sets = any(isinstance(part, _SETS) for part in self.parts)
        for part in self.parts:
            if isinstance(part, inspect.CustomType) and part.cls is not object and not _is_model(part.cls):
                raise _no_form(type_, f"{part.cls!r} is unknown to it")
            if isinstance(part, inspect.DictType):
                _check_names(type_, part.key_type)
        self.encode = msgspec.json.Encoder(decimal_format="number", enc_hook=_written_otherwise).encode
        self.is_plain = plain_check(described)
        self.likeness = Likeness(subclasses=not any(isinstance(part, _OPEN) for part in self.parts))


@lru_cache(maxsize=256)
def _cached_form(type_: Any) -> _Form:
    return _Form(type_)


def _form(type_: Any) -> _Form:
    try:
        return _cached_form(type_)
    except TypeError:  # unhashable
        return _Form(type_)


def encoded_names(serde: Serde[Any]) -> tuple[str, ...]:
    """The names of the fields that values have as JSON objects; none if the serde is not that of a struct."""
    if isinstance(serde, StructSerde) and isinstance(serde.type, type) and issubclass(serde.type, msgspec.Struct):
        return serde.type.__struct_encode_fields__
    return ()


def serde_of(spec: type[T] | Serde[T]) -> Serde[T]:
    """The serde of a type, or the serde itself: text is UTF-8, bytes stay as they are, the rest is JSON."""
    if spec is str or spec is bytes:
        return cast("Serde[T]", Utf8Serde() if spec is str else BytesSerde())
    if not isinstance(spec, type) and hasattr(spec, "serialize"):
        return spec
    return StructSerde(cast("type[T]", spec))


def key_serde(serde: Serde[T]) -> Serde[T]:
    """The serde for keys: where equal values may be written in several ways, one that writes them in one way.

    Raises:
        ConfigurationError: there is no one way: keys are sets of sets.
    """
    if not isinstance(serde, StructSerde) or isinstance(serde, KeySerde):
        return serde
    form = _form(serde.type)
    for part in form.parts:
        if isinstance(part, _SETS) and any(isinstance(inner, _SETS) for inner in _parts(part.item_type)):
            msg = f"keys can't be of type {serde.type!r}: sets within a set have no order, so equal keys would have"
            raise ConfigurationError(f"{msg} other bytes in another process. Make text or tuples of them")
    return KeySerde(serde.type) if any(isinstance(part, _WRITTEN_IN_MANY_WAYS) for part in form.parts) else serde


def _parts(described: inspect.Type) -> list[Any]:
    """The kinds of a type and of everything in it."""
    seen: dict[int, Any] = {}
    waiting: list[Any] = [described]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting += part
        elif isinstance(part, inspect.Type | inspect.Field) and id(part) not in seen:
            seen[id(part)] = part  # a type may contain itself
            waiting += msgspec.structs.astuple(part)
    return list(seen.values())


def _check_names(type_: Any, key: Any) -> None:
    """Refuses a type whose dicts have keys that JSON has no names of fields for."""
    if isinstance(key, inspect.Metadata):
        _check_names(type_, key.type)
    elif isinstance(key, inspect.UnionType):
        for part in key.types:
            if not isinstance(part, inspect.NoneType):
                _check_names(type_, part)
    elif isinstance(key, _NO_NAMES):
        kind = type(key).__name__.removesuffix("Type").lower()
        raise _no_form(type_, f"keys of a dict can't be of kind {kind}: make text of them")


def _is_model(type_: Any) -> bool:
    """Whether a type is a model of pydantic, which may not be installed."""
    return isinstance(type_, type) and hasattr(type_, "model_validate_json") and hasattr(type_, "model_dump_json")


def _model_json(model: Any) -> bytes:
    data: bytes = model.model_dump_json(by_alias=True, round_trip=True).encode()
    return data


def _written_otherwise(part: Any) -> Any:
    """What is written for a value that msgspec doesn't know: a model's fields, or what a number or text is one of."""
    if _is_model(type(part)):
        return msgspec.Raw(_model_json(part))
    for base, plain in _PLAIN_FORMS:
        if isinstance(part, base):
            return plain(part)
    raise TypeError(f"JSON has no form for a {type(part).__name__}: convert it")


def _fields_of_model(part: Any) -> Any:
    """The fields as Python's values: in a model's own JSON a decimal is text, with the zeros at its end."""
    if not _is_model(type(part)):
        return _written_otherwise(part)
    return part.model_dump(by_alias=True, round_trip=True)


def _read_model(type_: Any, content: Any) -> Any:
    return type_.model_validate_json(msgspec.json.encode(content)) if _is_model(type_) else content


def _canonical_key(key: Any) -> bytes:
    content = msgspec.to_builtins(
        key, builtin_types=(Decimal, dt.datetime), str_keys=True, order="deterministic", enc_hook=_fields_of_model
    )
    return _encode_key(_canonical_parts(content))


_encode_key = msgspec.json.Encoder(decimal_format="number").encode


def _canonical_parts(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: _canonical_parts(inner) for name, inner in part.items()}
    if isinstance(part, list | tuple):
        return [_canonical_parts(inner) for inner in part]
    if isinstance(part, float):
        return part + 0.0  # -0.0 becomes 0.0
    if isinstance(part, dt.datetime) and part.tzinfo is not None:
        return part.astimezone(dt.UTC)
    return _canonical_decimal(part) if isinstance(part, Decimal) and part.is_finite() else part


def _canonical_decimal(number: Decimal) -> Decimal:
    sign, digits, exponent = number.as_tuple()
    if not number or not isinstance(exponent, int):
        return Decimal(0)
    text = "".join(map(str, digits))
    stripped = text.rstrip("0")
    exponent += len(text) - len(stripped)
    if 0 < exponent <= _MOST_ZEROS:
        stripped, exponent = stripped + "0" * exponent, 0
    return Decimal(f"{'-' * sign}{stripped}E{exponent}")


def _never(_: object) -> bool:
    return False


def _name(type_: Any) -> str:
    return str(getattr(type_, "__name__", type_))


def _no_form(type_: Any, why: object) -> ConfigurationError:
    return ConfigurationError(
        f"values of type {type_!r} have no JSON form: use a msgspec.Struct, a data class or a model of pydantic, or "
        f"pass a serde ({why})"
    )


def bare_serialize(serde: Serde[T]) -> Callable[[T], bytes]:
    """`serde.serialize`."""
    known: Any = serde
    return cast("Callable[[T], bytes]", str.encode) if type(known) is Utf8Serde else serde.serialize


def bare_deserialize(serde: Serde[T]) -> Callable[[bytes], T]:
    """`serde.deserialize`."""
    known: Any = serde
    if type(known) is Utf8Serde:
        return cast("Callable[[bytes], T]", bytes.decode)
    return cast("Callable[[bytes], T]", known.read) if type(known) in {StructSerde, KeySerde} else serde.deserialize
