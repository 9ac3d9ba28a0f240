"""Typed values as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pytest

from storekeeper.errors import ConfigurationError, SerializationError
from storekeeper.serdes.serde import BytesSerde, Int64Serde, Utf8Serde
from storekeeper.serdes.struct import StructSerde, serde_of


class Price(msgspec.Struct, frozen=True):
    amount: Decimal
    notes: list[str] = []


def test_a_struct_comes_back_equal_and_a_decimal_is_a_number_with_all_its_digits() -> None:
    serde = StructSerde(Price)
    price = Price(Decimal("12345678901234567890.10"), ["a"])
    data = serde.serialize(price)
    assert data == b'{"amount":12345678901234567890.10,"notes":["a"]}'
    assert serde.deserialize(data) == price


def test_a_decimal_is_read_from_text_as_well() -> None:
    assert StructSerde(Price).deserialize(b'{"amount":"0.10"}') == Price(Decimal("0.10"))


@pytest.mark.parametrize("amount", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_a_decimal_that_is_no_number_is_refused(amount: str) -> None:
    with pytest.raises(SerializationError, match="Price"):
        StructSerde(Price).serialize(Price(Decimal(amount)))


def test_a_text_may_say_that_it_is_no_number() -> None:
    price = Price(Decimal(1), ["NaN", "Infinity"])
    assert StructSerde(Price).deserialize(StructSerde(Price).serialize(price)) == price


class Spread(NamedTuple):
    low: float
    high: float


@dataclass(eq=False)
class Reading:
    mean: float | None
    parts: list[Reading]
    by_name: dict[str, list[float | None]]
    spread: Spread | None = None


class Envelope(msgspec.Struct):
    content: msgspec.Raw
    mean: float | None = None


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (float, NAN),
        (float | None, INFINITY),
        (Any, {"mean": [-INFINITY]}),
        (object, NAN),
        (Reading, Reading(NAN, [], {})),
        (Reading, Reading(None, [Reading(NAN, [], {})], {})),
        (Reading, Reading(1.0, [], {"a": [None, -INFINITY]})),
        (Reading, Reading(1.0, [], {}, Spread(1.0, NAN))),
    ],
)
def test_a_float_that_is_no_number_is_refused_and_not_written_as_null(type_: Any, value: object) -> None:
    with pytest.raises(SerializationError, match="read back"):
        StructSerde(type_).serialize(value)


def test_floats_beside_none_are_no_reason_to_refuse() -> None:
    reading = Reading(None, [Reading(1.5, [], {})], {"null": [None, 2.5]}, Spread(1.0, 2.0))
    data = StructSerde(Reading).serialize(reading)
    found = StructSerde(Reading).deserialize(data)
    assert (found.mean, found.parts[0].mean, found.by_name) == (None, 1.5, {"null": [None, 2.5]})
    assert StructSerde(Envelope).serialize(Envelope(msgspec.Raw(b"[null]"))) == b'{"content":[null],"mean":null}'


@pytest.mark.parametrize("data", [b"", b"{}", b'{"amount": "x"}', b'{"amount": 1', b"\xff", b'{"amount":"1"} trailing'])
def test_what_is_no_such_struct_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError, match="Price"):
        StructSerde(Price).deserialize(data)


def test_a_value_without_a_form_is_refused() -> None:
    with pytest.raises(SerializationError, match="object"):
        StructSerde(object).serialize(object())


def test_a_type_without_a_form_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="msgspec"):
        StructSerde(dict[Price, int] | list[Price] | set[int])  # type: ignore[arg-type]


def test_the_serde_of_a_type() -> None:
    assert isinstance(serde_of(str), Utf8Serde)
    assert isinstance(serde_of(bytes), BytesSerde)
    assert serde_of(int).serialize(5) == b"5"
    own = Int64Serde()
    assert serde_of(own) is own
