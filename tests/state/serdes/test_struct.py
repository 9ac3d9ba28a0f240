"""Typed values as JSON."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from state.errors import ConfigurationError, SerializationError
from state.serdes.integers import Int64Serde
from state.serdes.serde import BytesSerde, Utf8Serde
from state.serdes.struct import StructSerde, serde_of


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
