"""An app as somebody in a hurry would write it: each of its functions fails on some records, in every part of it.

| sub-topology | behind     | operators                                                                 |
|--------------|------------|---------------------------------------------------------------------------|
| orders       | the topic  | `timestamps=`, `check=`, a processor with two stores, mapper, key selector |
| shops        | a shuffle  | sums per shop, a join with them, windows that are emitted on close         |
| items        | a topic    | a processor that refuses records, counts per item that are held back       |

An order names the function that fails on it. Rows of closed windows fail by their counts.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import topology_app
from storekeeper.stores.key_value import KeyValueStore
from storekeeper.stores.windowed import Windowed
from storekeeper.topology import (
    EmitStrategy,
    KStream,
    ProcessorContext,
    Store,
    StreamsBuilder,
    tumbling,
    until_window_closes,
    with_window,
)

TOPIC = "orders"
LINES, TOTALS, CLOSED, HELD = "order-lines", "shop-totals", "shop-windows", "item-windows"
SIZE = timedelta(minutes=1)
GRACE = timedelta(minutes=30)
"""Far longer than the tasks' inputs can be apart."""
WINDOWS = tumbling(SIZE, grace=GRACE)
AHEAD_OF_ALL_MS = 4_000_000_000_000
"""Further ahead than a broker takes."""

BAD_TIMES: dict[str, Any] = {
    "time: fraction": 1.5,
    "time: none": None,
    "time: text": "2020-07-25",
    "time: boolean": True,
    "time: without a zone": datetime(2020, 7, 25),  # noqa: DTZ001 (that is what is wrong with it)
    "time: before 1970": datetime(1969, 12, 31, tzinfo=UTC),
    "time: beyond year 9999": 253_402_300_800_000,
    "time: beyond 64 bits": 1 << 80,
    "time: not finite": float("nan"),
}
AHEAD = "time: ahead of all"
"""A dead letter by the broker's clock alone."""
FAILS_AT_ONCE = (
    *BAD_TIMES,
    *("timestamps", "check", "check: control flow", "between two stores", "bad second row", "passed on", "refused"),
    *("mapper", "mapper: recursion", "line of another type", "key selector", "key of another type", "key: stop"),
)
"""The functions of the first sub-topology that fail, and ways in which they do."""
FAILS_IN_SHOPS = (
    *("adder", "adder: far ahead", "row of another type", "row not finite", "joiner", "total of another type"),
    "window's adder",
)
FAILS_IN_ITEMS = ("refused behind", "refused far ahead", "item's adder")
WITHOUT_SHOP = "no shop"
"""Has no key behind the repartition: it is dropped there, and no dead letter."""
FAILS = (*FAILS_AT_ONCE, *FAILS_IN_SHOPS, *FAILS_IN_ITEMS, WITHOUT_SHOP)


class Order(msgspec.Struct, frozen=True):
    """An order; `fails` names the function that fails on it."""

    id: str
    card: str
    shop: str
    item: str
    cents: int
    time_ms: int
    fails: str = ""


class Line(msgspec.Struct, frozen=True):
    """A record of topic `order-lines`."""

    id: str
    cents: int


class Sum(msgspec.Struct, frozen=True):
    """A row of the stores: how many orders, and what they cost."""

    orders: int = 0
    cents: int = 0
    share: float = 0.0

    def plus(self, order: Order) -> Sum:
        """The sum with one more order."""
        return Sum(self.orders + 1, self.cents + order.cents)


class Total(msgspec.Struct, frozen=True):
    """A record of topic `shop-totals`: what a shop has sold up to this order."""

    id: str
    shop: str
    orders: int
    cents: int


class Span(msgspec.Struct, frozen=True):
    """The orders of a shop or an item in a window."""

    name: str = ""
    start_ms: int = 0
    orders: int = 0
    cents: int = 0


COUNTS, SUMS = Store("order-counts", int), Store("order-sums", Sum)


def topology(streams: StreamsBuilder, _settings: AppSettings) -> None:
    """Notes orders by card, and sums them up by shop and by item."""
    for store in (COUNTS, SUMS):
        streams.add_store(store)
    orders = streams.stream(TOPIC, Order, check=accepted, timestamps=time_of)
    noted = orders.process_values(TwoStores, stores=[COUNTS, SUMS], values=Order, named="two-stores")
    noted.map_values(line, values=Line, named="line").to(LINES)
    _shops(orders.filter(wanted_by_shops).select_key(shop_of, keys=str, named="shop"))
    _items(noted.filter(wanted_by_items).select_key(item_of, keys=str, named="item"))


def _shops(orders: KStream[str, Order]) -> None:
    grouped = orders.group_by_key()
    sums = grouped.aggregate(Sum, with_order, store=Store("shop-sums", Sum), named="shop-sums")
    orders.join(sums, total, values=Total, named="total").to(TOTALS)
    closed = grouped.windowed_by(WINDOWS, emit=EmitStrategy.ON_WINDOW_CLOSE).aggregate(
        Span, with_window(in_window), store=Store("shop-spans", Span), named="shop-spans"
    )
    closed.to_stream().select_key(name_of, keys=str).map_values(lucky, values=Span, named="closed").to(CLOSED)


def _items(orders: KStream[str, Order]) -> None:
    kept = orders.repartition(named="by-item").process_values(Refusing, values=Order, named="refusing")
    held = (
        kept.group_by_key()
        .windowed_by(WINDOWS)
        .aggregate(Span, with_window(in_item), store=Store("item-spans", Span), named="item-spans")
        .suppress(until_window_closes(WINDOWS))
    )
    held.to_stream().select_key(name_of, keys=str).map_values(lucky, values=Span, named="held").to(HELD)


def fail(order: Order, *names: str) -> None:
    """Raises if the order is to fail here."""
    if order.fails in names:
        raise ValueError(order.fails, order.id)


def accepted(_key: str | None, order: Order | None, _timestamp_ms: int) -> None:
    """`check=`."""
    if order is not None:
        fail(order, "check")
        if order.fails == "check: control flow":
            raise StopIteration(order.id)


def time_of(_key: str, order: Order) -> Any:
    """`timestamps=`."""
    fail(order, "timestamps")
    return BAD_TIMES.get(order.fails, order.time_ms)


class TwoStores:
    """Notes an order in two stores."""

    def init(self, context: ProcessorContext[str, Order]) -> None:
        """Gets the stores."""
        self._context = context
        self._counts: KeyValueStore[str, int] = context.store(COUNTS)
        self._sums: KeyValueStore[str, Sum] = context.store(SUMS)

    def process(self, key: str, order: Order, _timestamp_ms: int) -> None:
        """Notes it in both stores, or in none."""
        self._counts.put(key, (self._counts.get(key) or 0) + 1)
        fail(order, "between two stores")
        row = (self._sums.get(key) or Sum()).plus(order)
        self._sums.put(key, order if order.fails == "bad second row" else row)  # type: ignore[arg-type]
        self._context.forward(key, order)
        fail(order, "passed on")
        if order.fails == "refused":
            self._context.dead_letter("nobody wants it")


def line(order: Order) -> Line:
    """A mapper."""
    fail(order, "mapper")
    if order.fails == "mapper: recursion":
        return line(order)
    if order.fails == "line of another type":
        return order  # type: ignore[return-value]
    return Line(order.id, order.cents)


def wanted_by_shops(_key: str, order: Order) -> bool:
    """Whether it goes on to the shops."""
    return order.fails not in FAILS_IN_ITEMS


def wanted_by_items(_key: str, order: Order) -> bool:
    """Whether it goes on to the items."""
    return order.fails not in FAILS_IN_SHOPS


def shop_of(_key: str, order: Order) -> str:
    """A key selector."""
    fail(order, "key selector")
    if order.fails == "key: stop":
        raise StopIteration
    if order.fails == "key of another type":
        return 7  # type: ignore[return-value]
    return None if order.fails == WITHOUT_SHOP else order.shop  # type: ignore[return-value]


def item_of(_key: str, order: Order) -> str:
    """Another one, which does not fail."""
    return order.item


def with_order(row: Sum, order: Order) -> Sum:
    """An adder."""
    fail(order, "adder", "adder: far ahead")
    if order.fails == "row of another type":
        return Sum(row.orders + 1, str(row.cents))  # type: ignore[arg-type]
    if order.fails == "row not finite":
        return Sum(row.orders + 1, row.cents, float("nan"))
    return row.plus(order)


def total(order: Order, row: Sum) -> Total:
    """A joiner."""
    fail(order, "joiner")
    if order.fails == "total of another type":
        return (order.id, row.orders)  # type: ignore[return-value]
    return Total(order.id, order.shop, row.orders, row.cents)


def in_window(window: Windowed[str], row: Span, order: Order) -> Span:
    """An adder of windows."""
    fail(order, "window's adder")
    return Span(window.key, window.start_ms, row.orders + 1, row.cents + order.cents)


class Refusing:
    """Passes orders on, and refuses some afterwards."""

    def init(self, context: ProcessorContext[str, Order]) -> None:
        """Keeps the context."""
        self._context = context

    def process(self, key: str, order: Order, _timestamp_ms: int) -> None:
        """Passes the order on."""
        self._context.forward(key, order)
        if order.fails in {"refused behind", "refused far ahead"}:
            self._context.dead_letter("nobody wants it there")


def in_item(window: Windowed[str], row: Span, order: Order) -> Span:
    """Another adder of windows."""
    fail(order, "item's adder")
    return in_window(window, row, order)


def name_of(window: Windowed[str], _row: Span) -> str:
    """The shop or item of a window."""
    return window.key


def is_lucky(orders: int) -> bool:
    """Whether the row of a closed window passes."""
    return orders % 5 != 3


def lucky(row: Span) -> Span:
    """A mapper of rows that waited."""
    if not is_lucky(row.orders):
        raise KeyError(row.name)
    return row


CARELESS = topology_app("careless", topology, title="Orders whose functions fail")
