"""The checks of topologies on records of their source topics. A record that fails becomes a dead letter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from spark_apps.records.poison import MAX_TEXT_CHARS, PoisonRecordError, StrictDecoder, text_key

T = TypeVar("T")
MAX_AHEAD_MS = 86_400_000
"""Clocks differ by a time zone at most. An event further ahead of its record would make all others late."""

Check = Callable[[Any, Any, int], None]
"""`check(key, value, timestamp_ms)` raises a `PoisonRecordError` for a record that can't be processed."""


class KeySerde:
    """Keys as text."""

    def deserialize(self, data: bytes) -> str:
        """The key.

        Raises:
            PoisonRecordError: see `text_key`.
        """
        return text_key(data)

    def serialize(self, value: str) -> bytes:
        """UTF-8."""
        return value.encode()


class ValueSerde(Generic[T]):
    """Values as JSON of one type of struct, decoded strictly: see `StrictDecoder`."""

    def __init__(self, kind: type[T], max_record_bytes: int) -> None:
        self.deserialize = StrictDecoder(kind, max_record_bytes=max_record_bytes).decode_value
        self._encode = msgspec.json.Encoder().encode

    def serialize(self, value: T) -> bytes:
        """The value as JSON."""
        return self._encode(value)


def has_key(key: Any, _value: Any, _timestamp_ms: int) -> None:
    """Refuses a record without a key. It may have no value: a tombstone.

    Raises:
        PoisonRecordError: the key is null, empty or too long.
    """
    if not key:
        raise PoisonRecordError("the key is null or empty")
    if len(key) > MAX_TEXT_CHARS:
        raise PoisonRecordError("the key is too long")


def has_key_and_value(key: Any, value: Any, timestamp_ms: int) -> None:
    """Refuses a record without key or value.

    Raises:
        PoisonRecordError: the key is null, empty or too long, or the value is null.
    """
    has_key(key, value, timestamp_ms)
    if value is None:
        raise PoisonRecordError("the value is null")


def keyed_by(name: str, key_of: Callable[[T], str]) -> Check:
    """Refuses a record whose key is not `key_of(value)`.

    Args:
        name: what the key is called in the error's message.
        key_of: the key that a value belongs to.
    """

    def check(key: Any, value: Any, timestamp_ms: int) -> None:
        has_key_and_value(key, value, timestamp_ms)
        if key != key_of(value):
            msg = f"the key is not the {name}"
            raise PoisonRecordError(msg)

    return check


def not_ahead(time_of: Callable[[T], int], max_ahead_ms: int = MAX_AHEAD_MS) -> Check:
    """Refuses an event that lies too far ahead of its record: it would make every later event late.

    Args:
        time_of: the time of an event, epoch ms.
        max_ahead_ms: how far ahead is accepted.
    """

    def check(_key: Any, value: Any, timestamp_ms: int) -> None:
        if time_of(value) > timestamp_ms + max_ahead_ms:
            msg = f"the event's time is more than {max_ahead_ms} ms ahead of the record's own"
            raise PoisonRecordError(msg)

    return check


def all_of(*checks: Check) -> Check:
    """Refuses a record that one of the checks refuses. Runs them in order; the first failure is raised."""

    def check(key: Any, value: Any, timestamp_ms: int) -> None:
        for each in checks:
            each(key, value, timestamp_ms)

    return check
