"""What mypy knows of a topology. A wrong function is marked; mypy reports a mark that is not needed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from storekeeper.errors import ConfigurationError
from storekeeper.serdes.struct import StructSerde
from storekeeper.stores.key_value import KeyValueStore
from storekeeper.stores.window import WindowStore
from storekeeper.stores.windowed import Windowed
from storekeeper.topology import (
    JoinWindows,
    KStream,
    KTable,
    ProcessorContext,
    Store,
    StoreKind,
    StreamsBuilder,
    TopologyTestDriver,
    sessions,
    tumbling,
    with_key,
    with_window,
)

PIECES = Store("pieces", int)
SEEN = Store("seen", int, kind=StoreKind.WINDOW, retention=timedelta(hours=1))


class Order(msgspec.Struct, frozen=True):
    customer: str
    pieces: int


class Customer(msgspec.Struct, frozen=True):
    name: str


class Sum(msgspec.Struct, frozen=True):
    pieces: int = 0


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


def test_adders_are_checked_whatever_their_form() -> None:
    streams = StreamsBuilder("app")
    orders = streams.stream("orders", Order).group_by_key()
    windows = orders.windowed_by(tumbling(timedelta(minutes=5)))
    total: KTable[str, int] = orders.aggregate(lambda: 0, lambda sum_, order: sum_ + order.pieces, store=PIECES)
    assert total.serdes.values is PIECES.value_serde

    orders.aggregate(Sum, lambda sum_, order: Sum(sum_.pieces + order.price))  # type: ignore[attr-defined]
    orders.aggregate(Sum, lambda order, sum_: Sum(sum_.total + order.pieces))  # type: ignore[attr-defined]
    orders.aggregate(Sum, lambda sum_, order: sum_.pieces + 1, store=Store("s", Sum))  # type: ignore[arg-type, return-value]
    orders.aggregate(Sum, with_key(lambda key, sum_, order: Sum(key + 1)))  # type: ignore[operator]
    windows.aggregate(Sum, with_window(lambda window, sum_, order: Sum(window.start)))  # type: ignore[attr-defined]
    windows.aggregate(Sum, with_window(lambda window, sum_, order: Sum(window.start_ms)))
    both = orders.cogroup(lambda sum_, order: Sum(sum_.pieces + order.pieces))
    both.cogroup(orders, lambda sum_, order: Sum(order.price))  # type: ignore[attr-defined]
    groups = streams.table("customers", Order, store="c").group_by(lambda _, order: (order.customer, 1), values=int)
    groups.aggregate(Sum, lambda sum_, one: sum_, lambda sum_, one: Sum(sum_.total - one))  # type: ignore[attr-defined]
    groups.aggregate(Sum, with_key(lambda key, sum_, one: sum_), lambda sum_, one: Sum(sum_.pieces - one))


def test_sessions_need_a_merger() -> None:
    days = StreamsBuilder("app").stream("orders", Order).group_by_key().windowed_by(sessions(timedelta(days=1)))
    with pytest.raises(ConfigurationError, match="merger"):
        days.aggregate(Sum, lambda sum_, order: Sum(sum_.pieces + order.pieces))  # type: ignore[call-overload]
    merged: KTable[Windowed[str], Sum] = days.aggregate(
        Sum,
        lambda sum_, order: Sum(sum_.pieces + order.pieces),
        lambda earlier, later: Sum(earlier.pieces + later.pieces),
    )
    assert merged.windows is not None


class Repeating:
    """Forwards the total of each key, and a tombstone where it is 0."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context
        self.pieces = context.store(PIECES)
        self.seen = context.store(SEEN, WindowStore)

    def process(self, key: str, value: Order, timestamp_ms: int) -> None:
        total: int = (self.pieces.get(key) or 0) + value.pieces
        self.pieces.put(key, total)
        self.seen.put(key, total, timestamp_ms)
        self.context.forward(key, total or None)

    def wrong(self) -> None:
        self.pieces.put("key", "text")  # type: ignore[arg-type]
        self.seen.get("key")  # type: ignore[attr-defined]


def test_stores_of_processors_are_typed() -> None:
    streams = StreamsBuilder("app")
    streams.add_store(PIECES)
    streams.add_store(SEEN)
    streams.stream("orders", Order).process_values(Repeating, stores=[PIECES, "seen"], values=int).to("totals")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("orders", "a", Order("ada", 2), 1)
    driver.pipe("orders", "a", Order("ada", -2), 2)
    assert [record.value for record in driver.read("totals")] == [2, None]
    assert driver.store("seen").fetch_one("a", 1) == 2


@pytest.mark.parametrize("kind", [None, KeyValueStore])
def test_a_store_is_of_the_kind_that_is_asked_for(kind: Any) -> None:
    class Asks(Repeating):
        def init(self, context: ProcessorContext[str, int]) -> None:
            context.store(SEEN, kind)

    streams = StreamsBuilder("app")
    streams.add_store(SEEN)
    streams.stream("orders", Order).process_values(Asks, stores=[SEEN], values=int)
    with pytest.raises(ConfigurationError, match=r"store\('seen', WindowStore\)"):
        TopologyTestDriver(streams.build())


def test_a_union_and_a_joiner_of_tombstones() -> None:
    streams = StreamsBuilder("app")
    either: KStream[str, int | str] = streams.stream("either", int | str)
    texts: KStream[str, str] = either.map_values(lambda value: value if isinstance(value, str) else str(value))
    orders = streams.stream("orders", Order)
    named = orders.left_join(streams.table("customers", Customer), lambda _, customer: customer, values=Customer)
    by_name = named.group_by(lambda _, customer: customer.name)
    assert texts.serdes.values is None
    assert by_name.count(store="names").serdes.values is not None


def maybe(name: str) -> Customer | None:
    return Customer(name) if name else None


def test_a_mapper_may_give_a_tombstone() -> None:
    customers: KStream[str, Customer] = StreamsBuilder("app").stream("names", str).map_values(maybe)
    table: KTable[str, Customer] = customers.to_table(store=Store("customers", Customer))
    serde = table.serdes.values
    assert isinstance(serde, StructSerde)
    assert serde.type is Customer
