"""Rows as they will be read: what a serde makes of a value when it writes and reads it.

A batch sees its own rows without writing and reading them. So that it sees what the next batch will see, each value is
taken as it will be read, or refused, when it is put.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from storekeeper.errors import SerializationError
from storekeeper.serdes.differences import Likeness
from storekeeper.serdes.serde import Serde, read_by

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
            msg = f"a {type(value).__name__} doesn't read back equal: {difference}"
            raise SerializationError(msg)
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
