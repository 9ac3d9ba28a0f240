"""What mypy knows of a topology. A wrong function is marked; mypy reports a mark that is not needed."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from state.errors import ConfigurationError
from state.serdes.struct import StructSerde
from state.stores.windowed import Windowed
from state.topology import JoinWindows, KStream, KTable, Store, StreamsBuilder, tumbling, with_key


class Order(msgspec.Struct, frozen=True):
    customer: str
    pieces: int


class Customer(msgspec.Struct, frozen=True):
    name: str


def test_functions_are_checked_against_what_they_are_given() -> None:
    streams = StreamsBuilder("app")
    orders = streams.stream("orders", Order)
    customers = streams.table("customers", Customer)

    by_customer: KStream[str, Order] = orders.select_key(lambda _, order: order.customer)
    named: KStream[str, str] = by_customer.join(customers, lambda order, customer: customer.name * order.pieces)
    left: KStream[str, str] = by_customer.left_join(
        customers, lambda order, customer: customer.name if customer is not None else order.customer
    )
    windowed: KTable[Windowed[str], int] = (
        by_customer.group_by_key()
        .windowed_by(tumbling(timedelta(minutes=5)))
        .aggregate(lambda: 0, lambda total, order: total + order.pieces, store=Store("pieces", int))
    )
    pairs: KStream[str, int] = orders.join(
        orders, with_key(lambda key, one, two: len(key) + one.pieces + two.pieces), JoinWindows.of(timedelta(minutes=1))
    )
    assert {named.rekeyed, left.rekeyed, pairs.rekeyed} == {False}
    assert windowed.windows is not None

    orders.filter(lambda _, order: order.price > 1)  # type: ignore[attr-defined]
    by_customer.join(customers, lambda order, customer: customer.pieces)  # type: ignore[attr-defined]
    by_customer.left_join(customers, lambda order, customer: customer.name)  # type: ignore[union-attr]
    by_customer.group_by_key().reduce(lambda one, two: one.pieces)  # type: ignore[arg-type, return-value]


def test_a_stream_is_joined_with_a_stream_within_a_window_only() -> None:
    orders = StreamsBuilder("app").stream("orders", Order)
    with pytest.raises(ConfigurationError, match="windows"):
        orders.join(orders, lambda one, two: one)  # type: ignore[call-overload]


def maybe(name: str) -> Customer | None:
    return Customer(name) if name else None


def test_a_mapper_may_give_a_tombstone() -> None:
    customers: KStream[str, Customer] = StreamsBuilder("app").stream("names", str).map_values(maybe)
    table: KTable[str, Customer] = customers.to_table(store=Store("customers", Customer))
    serde = table.serdes.values
    assert isinstance(serde, StructSerde)
    assert serde.type is Customer
