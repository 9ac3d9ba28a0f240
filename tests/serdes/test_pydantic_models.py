"""Models of pydantic as types of values."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pydantic
import pytest

from storekeeper.errors import ConfigurationError, SerializationError
from storekeeper.serdes.struct import StructSerde, key_serde, serde_of
from storekeeper.topology import Store, StreamsBuilder, TopologyTestDriver


class Line(pydantic.BaseModel):
    item: str
    price: Decimal


class Order(pydantic.BaseModel):
    number: int = pydantic.Field(alias="orderNumber", ge=0)
    at: datetime
    lines: list[Line] = []
    by_size: dict[int, float] = {}


class Box(msgspec.Struct):
    order: Order
    more: list[Line] = []


class Plain:
    """A class that nothing knows how to write."""


ORDER = Order(
    orderNumber=7, at=datetime(2026, 1, 1, tzinfo=UTC), lines=[Line(item="a", price=Decimal("1.10"))], by_size={1: 2}
)


def test_a_model_comes_back_equal() -> None:
    serde: Any = serde_of(Order)
    data = serde.serialize(ORDER)
    assert data.startswith(b'{"orderNumber":7,"at":"2026-01-01T00:00:00Z"')
    back = serde.deserialize(data)
    assert back == ORDER
    assert str(back.lines[0].price) == "1.10"


@pytest.mark.parametrize("type_", [Box, list[Order], dict[str, Order], Order | None])
def test_models_may_be_parts_of_other_values(type_: Any) -> None:
    value: Any = {Box: Box(ORDER, ORDER.lines), list[Order]: [ORDER], dict[str, Order]: {"a": ORDER}}.get(type_, ORDER)
    serde = StructSerde(type_)
    assert serde.deserialize(serde.serialize(value)) == value


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"orderNumber":"x"}', b"[" * 3000 + b"]" * 3000])
def test_what_is_no_such_model_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError, match="Order"):
        serde_of(Order).deserialize(data)


def test_a_model_that_would_read_otherwise_is_refused() -> None:
    for wrong in (
        Line.model_construct(item=None, price=Decimal(1)),
        Line.model_construct(item="a", price=1.5),
        {"item": "a", "price": 1},
        None,
    ):
        with pytest.raises(SerializationError, match="read back"):
            serde_of(Line).serialize(wrong)  # type: ignore[arg-type]


def test_an_error_quotes_nothing_of_the_value() -> None:
    with pytest.raises(SerializationError) as refused:
        serde_of(Order).deserialize(b'{"orderNumber":"secret","at":"secret"}')
    assert "secret" not in str(refused.value)
    assert "orderNumber" in str(refused.value)


@pytest.mark.parametrize("type_", [Plain, list[Plain], dict[str, Plain | None]])
def test_a_class_that_nothing_can_write_is_refused_where_it_is_described(type_: Any) -> None:
    with pytest.raises(ConfigurationError, match="have no JSON form"):
        StreamsBuilder("app").stream("in", type_)


@pytest.mark.parametrize("cut", [1, 3])
def test_rows_may_be_models(cut: int) -> None:
    streams = StreamsBuilder("app")
    streams.stream("in", Line).group_by_key().aggregate(
        lambda: Line(item="", price=Decimal(0)),
        lambda row, line: Line(item=row.item + line.item, price=row.price + line.price),
        store=Store("rows", Line),
    )
    driver = TopologyTestDriver(streams.build())
    for number in range(3):
        driver.append("in", "k", Line(item=f"{number}", price=Decimal("0.10")), number)
        if number % cut == 0:
            driver.run()
    driver.run()
    assert driver.rows("rows") == [("k", Line(item="012", price=Decimal("0.30")))]


def test_models_that_are_equal_are_one_key() -> None:
    class Place(pydantic.BaseModel, frozen=True):
        name: str
        share: Decimal
        tags: frozenset[str] = frozenset()

    streams = StreamsBuilder("app")
    shares = streams.stream("in", str).select_key(lambda _, share: Place(name="a", share=Decimal(share)), keys=Place)
    shares.group_by_key().count(store="n")
    driver = TopologyTestDriver(streams.build())
    for share in ("1.0", "1.00", "2"):
        driver.pipe("in", "k", share)
    assert sorted(driver.rows("n"), key=lambda row: row[0].share) == [
        (Place(name="a", share=Decimal(1)), 2),
        (Place(name="a", share=Decimal(2)), 1),
    ]
    serde = key_serde(serde_of(Place))
    one, other = (Place(name="a", share=Decimal(0), tags=frozenset(tags)) for tags in ("abc", "cba"))
    assert serde.serialize(one) == serde.serialize(other)
    assert serde.deserialize(serde.serialize(one)) == one
