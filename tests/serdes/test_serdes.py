from __future__ import annotations

import datetime as dt
import enum
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import ConfigurationError, InvalidTimestampError, SerializationError
from storekeeper.serdes.json import JsonSerde
from storekeeper.serdes.serde import BytesSerde, Int64Serde, Utf8Serde
from storekeeper.serdes.timestamped import TimestampedSerde, ValueAndTimestamp
from storekeeper.serdes.versioned import SchemaVersions, VersionedSerde

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


class Colour(enum.Enum):
    RED = "red"


def test_golden_bytes() -> None:
    assert Int64Serde().serialize(-1).hex() == "7fffffffffffffff"
    assert Int64Serde().serialize(0).hex() == "8000000000000000"
    assert Utf8Serde().serialize("é").hex() == "c3a9"
    assert TimestampedSerde(Utf8Serde()).serialize(ValueAndTimestamp("v", 258)).hex() == "0000000000000102" + "76"


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_signed_integers_keep_their_order(one: int, two: int) -> None:
    serde = Int64Serde()
    assert (serde.serialize(one) < serde.serialize(two)) == (one < two)
    assert serde.deserialize(serde.serialize(one)) == one


@given(st.text(), st.text())
def test_text_keeps_the_order_of_code_points(one: str, two: str) -> None:
    serde = Utf8Serde()
    assert (serde.serialize(one) < serde.serialize(two)) == (one < two)
    assert serde.deserialize(serde.serialize(one)) == one


@given(JSON)
def test_json_round_trips(value: Any) -> None:
    assert JsonSerde().deserialize(JsonSerde().serialize(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        object(), dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.date(2026, 1, 1), {0: 1}, (1, 2), [(1,)], {1, 2}, b"bytes",
        float("nan"), [float("inf")], uuid.UUID(int=1), Colour.RED, "\ud800", ValueAndTimestamp("v", 1),
    ],
    ids=repr,
)  # fmt: skip
def test_json_refuses_what_it_would_change(value: Any) -> None:
    with pytest.raises(SerializationError):
        JsonSerde().serialize(value)


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (BytesSerde(), "text"), (Utf8Serde(), b"bytes"), (Utf8Serde(), "\ud800"),
        (Int64Serde(), 2**63), (Int64Serde(), "1"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_when_written(serde: Any, value: Any) -> None:
    with pytest.raises(SerializationError):
        serde.serialize(value)


@pytest.mark.parametrize(
    ("serde", "data"),
    [
        (Utf8Serde(), b"\xff"), (Int64Serde(), b"123456789"), (JsonSerde(), b"{"),
        (TimestampedSerde(Utf8Serde()), b"short"), (JsonSerde(), b"NaN"),
    ],
)  # fmt: skip
def test_foreign_bytes_are_refused_when_read(serde: Any, data: bytes) -> None:
    with pytest.raises(SerializationError):
        serde.deserialize(data)


def test_timestamps_travel_with_values() -> None:
    serde = TimestampedSerde(JsonSerde())
    assert serde.deserialize(serde.serialize(ValueAndTimestamp([1], 5))) == ValueAndTimestamp([1], 5)
    assert serde.deserialize(b"\xff" * 8 + b"[1]") == ValueAndTimestamp([1], -1)
    wrong_times: list[Any] = [-2, 2**63, 1.5, None, "5"]
    for timestamp_ms in wrong_times:
        with pytest.raises(InvalidTimestampError):
            serde.serialize(ValueAndTimestamp([1], timestamp_ms))
    no_pairs: list[Any] = [[1], "ab", (1, 2, 3), None]
    for value in no_pairs:
        with pytest.raises(SerializationError):
            serde.serialize(value)


def test_json_that_is_not_verified_is_only_refused_where_it_has_no_bytes() -> None:
    serde = JsonSerde(verify=False)
    assert serde.serialize((1, float("nan"))) == b"[1,null]"
    with pytest.raises(SerializationError):
        serde.serialize(object())


def test_a_version_is_known_without_reading_the_value() -> None:
    serde = versioned()
    assert [serde.version_of(data) for data in (b"\x00\x01", b"\x00\x03broken")] == [1, 3]
    assert (serde.versions.oldest, serde.versions.current) == (1, 3)
    with pytest.raises(SerializationError):
        serde.version_of(b"\x00\x04")


@pytest.mark.parametrize("version", [-1, 65_536])
def test_a_version_fits_two_bytes(version: int) -> None:
    with pytest.raises(ConfigurationError):
        SchemaVersions({version: JsonSerde()})


def versioned() -> VersionedSerde[dict[str, int]]:
    return VersionedSerde(
        SchemaVersions(
            serdes={1: Utf8Serde(), 2: JsonSerde(), 3: JsonSerde()},
            upgrades={1: lambda text: {"points": int(text)}, 2: lambda old: {**old, "invoices": 0}},
        )
    )


def test_versioned_reads_every_version_and_writes_the_current() -> None:
    serde = versioned()
    assert serde.deserialize(b"\x00\x01" + b"7") == {"points": 7, "invoices": 0}
    assert serde.deserialize(b"\x00\x02" + b'{"points":7}') == {"points": 7, "invoices": 0}
    written = serde.serialize({"points": 7, "invoices": 2})
    assert written == b"\x00\x03" + b'{"points":7,"invoices":2}'


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00x", b"\x00\x04{}"])
def test_versions_outside_the_supported_ones_are_refused(data: bytes) -> None:
    with pytest.raises(SerializationError, match="reads 1 to 3"):
        versioned().deserialize(data)


@pytest.mark.parametrize(
    ("serdes", "upgrades"),
    [({}, {}), ({1: JsonSerde(), 2: JsonSerde()}, {}), ({1: JsonSerde(), 3: JsonSerde()}, {1: dict, 2: dict})],
)
def test_incomplete_versions_are_refused(serdes: Any, upgrades: Any) -> None:
    with pytest.raises(ConfigurationError):
        SchemaVersions(serdes=serdes, upgrades=upgrades)


def test_what_is_no_text_is_refused_with_the_way_on() -> None:
    with pytest.raises(SerializationError, match="expected text, not int: pass keys=int"):
        Utf8Serde().serialize(5)  # type: ignore[arg-type]
    with pytest.raises(SerializationError, match="lone surrogate"):
        Utf8Serde().serialize("\ud800")
