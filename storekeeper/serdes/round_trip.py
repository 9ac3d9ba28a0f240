"""Rows as they will be read: what a serde makes of a value when it writes and reads it.

A batch sees its own rows without writing and reading them. So that it sees what the next batch will see, each value is
taken as it will be read, or refused, when it is put.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterable
from copy import copy
from decimal import Decimal
from math import copysign
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable
from uuid import UUID

import msgspec

from storekeeper.errors import SerializationError
from storekeeper.serdes.serde import Serde, read_by

_BASES = (str, int, float, bytes, tuple, list, dict, set, frozenset, Decimal, dt.datetime, dt.date, dt.time,
          dt.timedelta, UUID)  # fmt: skip


class Likeness(NamedTuple):
    """What is no difference.

    Attributes:
        subclasses: whether a subclass of a built-in type, such as a StrEnum, may come back as that type.
        digits: whether a decimal may come back with another number of zeros.
    """

    subclasses: bool = True
    digits: bool = False

    def difference(self, value: Any, back: Any, at: str = "$") -> str | None:
        """Says what differs and where; None if nothing does.

        A whole number may come back as a float or a decimal of the same value, and a set in another order.
        """
        kind = type(back)
        if type(value) is not kind and not self._may_become(value, back):
            return f"{at}: {_a(type(value))} would come back as {_a(kind)}"
        if isinstance(back, dict) and isinstance(value, dict):
            return self._of_dicts(value, back, at)
        if isinstance(back, list | tuple):
            return self._of_parts(enumerate(value), enumerate(back), at) if len(value) == len(back) else _changed(at)
        fields = field_names(kind)
        if fields is not None:
            values, backs = ([(name, getattr(one, name, None)) for name in fields] for one in (value, back))
            difference = self._of_parts(values, backs, at)
            is_like = difference is not None or _may_be_equal(value, back) or _has_equal_rest(value, back, fields)
            return difference if is_like else _changed(at)
        return None if self._is_same(value, back) else _changed(at)

    def _may_become(self, value: Any, back: Any) -> bool:
        if type(value) is int:
            return isinstance(back, float | Decimal)
        if isinstance(value, set | frozenset) and isinstance(back, set | frozenset):
            return True
        if isinstance(value, bool) or not self.subclasses or hasattr(value, "__missing__"):
            return False
        return type(back) in _BASES and isinstance(value, type(back))

    def _of_dicts(self, value: dict[Any, Any], back: dict[Any, Any], at: str) -> str | None:
        if len(value) != len(back):
            return _changed(at)
        known = {_instant(key): key for key in back}
        for key, inner in value.items():
            if (instant := _instant(key)) not in known:
                other = next(iter(known.keys() - set(map(_instant, value))))
                return f"a key in {at}: {_a(type(key))} would come back as {_a(type(other))}"
            difference = self.difference(key, known[instant], f"a key in {at}")
            difference = difference or self.difference(inner, back[known[instant]], f"{at}[...]")
            if difference is not None:
                return difference
        return None

    def _of_parts(self, values: Any, backs: Any, at: str) -> str | None:
        for (name, value), (_, back) in zip(values, backs, strict=True):
            place = f"{at}[...]" if isinstance(name, int) else f"{at}.{name}"
            difference = self.difference(value, back, place)
            if difference is not None:
                return difference
        return None

    def _is_same(self, value: Any, back: Any) -> bool:
        if type(value) is Decimal and not self.digits:
            return bool(value == back) and (not value or value.as_tuple() == back.as_tuple())
        if type(value) is float:
            return bool(value == back) and (self.digits or copysign(1, value) == copysign(1, back))
        if isinstance(value, dt.datetime):
            return bool(_instant(value) == _instant(back))
        if isinstance(value, set | frozenset):
            return {_instant(each) for each in value} == {_instant(each) for each in back}
        if isinstance(value, msgspec.Raw):
            return bytes(value) == bytes(back)
        return _may_be_equal(value, back)


def field_names(kind: type) -> list[str] | tuple[str, ...] | None:
    """The names of the fields of a struct, a data class or a model; None of any other type."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    for attribute in ("__attrs_attrs__", "model_fields"):
        if hasattr(kind, attribute):
            return [getattr(field, "name", field) for field in getattr(kind, attribute)]
    return None


def _may_be_equal(value: Any, back: Any) -> bool:
    """Whether two objects are equal, as far as they can say."""
    if isinstance(value, msgspec.Struct) or "__eq__" not in _methods(type(value)):
        return True
    try:
        return bool(value == back)
    except Exception:  # such as arrays, which compare part by part
        return True


def _has_equal_rest(value: Any, back: Any, fields: Iterable[str]) -> bool:
    """Whether two objects are equal but for their fields, which were compared one by one."""
    other = copy(value)
    for name in fields:
        object.__setattr__(other, name, getattr(back, name, None))
    return _may_be_equal(other, back)


def _instant(part: Any) -> Any:
    """A time in UTC; anything else as it is.

    Of an hour that comes twice, when clocks are put back, Python calls equal times of two zones different.
    """
    return part.astimezone(dt.UTC) if isinstance(part, dt.datetime) and part.tzinfo is not None else part


def _methods(kind: type) -> set[str]:
    """The names that a class and its bases define, without those of every object."""
    return {name for base in kind.__mro__ if base is not object for name in vars(base)}


def _a(kind: type) -> str:
    name = kind.__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"


def _changed(at: str) -> str:
    return f"{at} would come back changed"


T = TypeVar("T")


@runtime_checkable
class RoundTrip(Protocol[T]):
    """A serde that knows how its values read."""

    def serialize(self, value: T) -> bytes: ...  # noqa: D102 (see `Serde`)
    def deserialize(self, data: bytes) -> T: ...  # noqa: D102 (see `Serde`)

    def is_plain(self, value: T) -> bool:
        """Whether a value surely reads as it is. Cheap; no says nothing."""
        ...

    def as_read(self, value: T) -> tuple[T, bytes]:
        """The value as it will be read, and its bytes.

        Raises:
            SerializationError: it would not read back equal.
        """
        ...

    def write(self, value: T) -> bytes:
        """The bytes of a value that is plain, or that `as_read` gave."""
        ...


class ReadBack(Generic[T]):
    """Any other serde, whose values are written, read and compared.

    Args:
        serde: the serde.
        rounds: whether values may change, as a schema's floats and times do.
    """

    def __init__(self, serde: Serde[T], *, rounds: bool = False) -> None:
        self._serde = serde
        self._rounds = rounds

    def serialize(self, value: T) -> bytes:
        """The value's bytes, which read as `as_read` says."""
        return self.as_read(value)[1]

    def deserialize(self, data: bytes) -> T:
        """The value."""
        return read_by(self._serde, data)

    def write(self, value: T) -> bytes:
        """The value's bytes."""
        return self._serde.serialize(value)

    def is_plain(self, value: T) -> bool:
        """No: only writing and reading tells."""
        del value
        return False

    def as_read(self, value: T) -> tuple[T, bytes]:
        """The value as it will be read, and its bytes.

        Raises:
            SerializationError: it would not read back equal.
        """
        data = self._serde.serialize(value)
        back = read_by(self._serde, data)
        difference = None if self._rounds else Likeness().difference(value, back)
        if difference is not None:
            raise SerializationError(f"a {type(value).__name__} doesn't read back equal: {difference}")
        return back, data


class Trusted(Generic[T]):
    """A serde whose values are known to read back."""

    def __init__(self, serde: Serde[T]) -> None:
        self.serialize = self.write = serde.write if isinstance(serde, RoundTrip) else serde.serialize
        self.deserialize = serde.deserialize

    def is_plain(self, value: T) -> bool:
        """Yes."""
        del value
        return True

    def as_read(self, value: T) -> tuple[T, bytes]:
        """The value and its bytes."""
        return value, self.write(value)


def round_trip(serde: Serde[T]) -> RoundTrip[T]:
    """A serde that knows how its values read.

    A schema's values may be rounded to what it holds: floats to 32 bits, times to their unit.
    """
    if isinstance(serde, RoundTrip):
        return serde
    return ReadBack(serde, rounds=hasattr(serde, "schema") or hasattr(serde, "inner"))


def name_row(error: SerializationError, place: str, key: object) -> None:
    """Puts the place and the key of the value that an error is about in front of its text."""
    error.args = (f"{place}, key {key!r}: {error}",)


def as_read_from(place: str, serde: Serde[T]) -> Callable[[Any, T | None], T | None]:
    """A function that gives a key's value as it will be read from a place. None stays None.

    The function raises a `SerializationError` that names place and key if the value would not read back equal.
    """
    known = round_trip(serde)
    is_plain, as_read = known.is_plain, known.as_read

    def read(key: Any, value: T | None) -> T | None:
        if value is None or is_plain(value):
            return value
        try:
            return as_read(value)[0]
        except SerializationError as error:
            name_row(error, place, key)
            raise

    return read
