from __future__ import annotations

from typing import Any

import msgspec
import pytest

from storekeeper.apps.records import (
    MAX_AHEAD_MS,
    Check,
    KeySerde,
    PoisonRecordError,
    ValueSerde,
    all_of,
    has_key,
    has_key_and_value,
    keyed_by,
    not_ahead,
)


class Event(msgspec.Struct, frozen=True, rename="pascal"):
    user: str
    time_ms: int


def user_of(event: Event) -> str:
    return event.user


def time_of(event: Event) -> int:
    return event.time_ms


BOTH = all_of(keyed_by("User", user_of), not_ahead(time_of))


@pytest.mark.parametrize(
    ("check", "key", "value", "reason"),
    [
        (has_key, None, None, "null or empty"),
        (has_key, "", None, "null or empty"),
        (has_key, "k" * 1025, None, "too long"),
        (has_key_and_value, "k", None, "the value is null"),
        (BOTH, "k", None, "the value is null"),
        (BOTH, "k", Event("other", 100), "the key is not the User"),
        (BOTH, "k", Event("k", 101 + MAX_AHEAD_MS), "ahead of the record's own"),
    ],
)
def test_what_a_check_refuses(check: Check, key: Any, value: Any, reason: str) -> None:
    with pytest.raises(PoisonRecordError, match=reason):
        check(key, value, 100)


@pytest.mark.parametrize(
    ("check", "value"), [(has_key, None), (has_key_and_value, 1), (BOTH, Event("k", 100 + MAX_AHEAD_MS))]
)
def test_what_a_check_lets_through(check: Check, value: Any) -> None:
    check("k", value, 100)


def test_keys_and_values_come_back() -> None:
    assert KeySerde().deserialize(KeySerde().serialize("ü")) == "ü"
    serde = ValueSerde(Event, 1000)
    assert serde.deserialize(serde.serialize(Event("k", 1))) == Event("k", 1)


@pytest.mark.parametrize("data", [b"\xff", b"a\x00b", b""])
def test_what_is_no_key_is_poison(data: bytes) -> None:
    with pytest.raises(PoisonRecordError):
        KeySerde().deserialize(data)


@pytest.mark.parametrize("data", [b"{}", b'{"User":"k","TimeMs":"1"}', b" " * 1001])
def test_what_is_no_value_is_poison(data: bytes) -> None:
    with pytest.raises(PoisonRecordError):
        ValueSerde(Event, 1000).deserialize(data)
