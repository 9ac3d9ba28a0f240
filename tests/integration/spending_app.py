"""What customers spend, by customer and by region: a stream joined with a table, and two aggregates of the result.

The platforms of tests run it as an app of one's own, from a copy of this file. `oracle` computes the same in a loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import topology_app
from storekeeper.topology import Store, StreamsBuilder

CUSTOMERS, ORDERS = "customers", "orders"


class Customer(msgspec.Struct, frozen=True):
    """A record of the topic of customers."""

    region: str
    factor: int


class Order(msgspec.Struct, frozen=True):
    """A record of the topic of orders."""

    amount: int


class Priced(msgspec.Struct, frozen=True):
    """An order with what its customer pays."""

    region: str
    amount: int


class Spent(msgspec.Struct, frozen=True):
    """A row of both aggregates."""

    orders: int = 0
    total: int = 0


def priced(order: Order, customer: Customer) -> Priced:
    return Priced(customer.region, order.amount * customer.factor)


def region_of(_: str, order: Priced) -> str:
    return order.region


def with_order(spent: Spent, order: Priced) -> Spent:
    return Spent(spent.orders + 1, spent.total + order.amount)


def topology(streams: StreamsBuilder, _: AppSettings) -> None:
    customers = streams.table(CUSTOMERS, Customer, store="customers")
    orders = streams.stream(ORDERS, Order).join(customers, priced)
    orders.group_by_key().aggregate(Spent, with_order, store=Store("spent", Spent))
    orders.group_by(region_of).aggregate(Spent, with_order, store=Store("regions", Spent))


SPENDING = topology_app("spending", topology, title="What customers spend")


def oracle(
    customers: Iterable[tuple[bytes, bytes]], orders: Iterable[tuple[bytes, bytes]]
) -> dict[str, dict[str, dict[str, int]]]:
    """The rows of both aggregates, by store and key."""
    known = {key.decode(): msgspec.json.decode(value) for key, value in customers}
    number, total = {"spent": Counter[str](), "regions": Counter[str]()}, Counter[tuple[str, str]]()
    for encoded, value in orders:
        key, amount = encoded.decode(), msgspec.json.decode(value)["amount"]
        customer = known.get(key)
        if customer is None:
            continue
        for store, row in (("spent", key), ("regions", customer["region"])):
            number[store][row] += 1
            total[store, row] += amount * customer["factor"]
    return {
        store: {row: {"orders": found, "total": total[store, row]} for row, found in rows.items()}
        for store, rows in number.items()
    }
