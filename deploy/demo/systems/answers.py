"""Reads the five systems' stores from the query nodes, as any client would."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from deploy.demo.systems.oracle import Expected, of_the_last_days
from state.client import StateClient
from state.client.readings import Row

_LAST_MS = 9_000_000_000_000


def collect(client: StateClient) -> Expected:
    """Every store, in the oracle's form."""
    return Expected(
        prices={row.key: _exact(row.value["Price"]) for row in client.key_value("prices").all()},
        players={
            row.key: (row.value["HighScore"], row.value["GamesPlayed"], row.value["TotalScore"])
            for row in client.ranked("players").all()
        },
        products={row.key: row.value["Name"] for row in client.global_store("products").all()},
        order_locations=_orders(client.global_store("order-locations").all()),
        orders=_orders(client.key_value("orders").all()),
        sessions={
            (row.key, row.start_ms, row.end_ms): row.value["EventCount"]
            for row in client.session("user-sessions").ended(0, _LAST_MS)
        },
        sales=of_the_last_days(_windows(client, "sales")),
        sales_hopping=of_the_last_days(_windows(client, "sales-hopping")),
    )


def _orders(rows: Iterable[Row]) -> dict[Any, Any]:
    return {row.key: (row.value["Status"], row.value["UpdatedTime"]) for row in rows}


def _windows(client: StateClient, store: str) -> dict[Any, Any]:
    return {
        (row.key, row.start_ms): (
            row.value["Sales"],
            row.value["Quantity"],
            _exact(row.value["Amount"]),
        )
        for row in client.window(store).fetch_all(0, _LAST_MS)
    }


def _exact(number: float) -> Decimal:
    """A number with at most four decimals, as it was written."""
    return Decimal(str(round(number, 4)))
