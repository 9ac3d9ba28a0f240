"""The five smaller systems' part of the demo: publishes their events, asks what people would ask, and compares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import orjson

from demo.collect import read_topic
from demo.comparison import Difference, TopicRecord
from demo.publish import publish
from demo.screen import Screen
from demo.systems.events import HOUR_MS, system_records
from demo.systems.oracle import GAP_MS, Expected, compare_systems, expect, of_the_last_days
from spark_apps.records.topics import POS
from storekeeper.client.client import StateClient
from storekeeper.client.readings import Row
from storekeeper.ops.settings import PlatformSettings

_LAST_MS = 9_000_000_000_000
_SHOWN = 5


class SystemsPart:
    """The systems of one demo."""

    def __init__(self, settings: PlatformSettings, screen: Screen) -> None:
        self._settings = settings
        self._screen = screen
        self._records = system_records()

    def publish(self) -> int:
        """Publishes the events of all systems but those that the tills send; returns how many."""
        publish(self._settings.kafka, self._records)
        return len(self._records)

    def show(self) -> None:
        """A few answers of each system."""
        with StateClient(next(iter(self._settings.node_urls.values()))) as client:
            self._show_board(client)
            self._show_orders()
            self._show_sessions(client)
            self._show_prices(client)
            self._show_sales(client)

    def compare(self, invoices: Collection[tuple[bytes | None, bytes | None]]) -> tuple[list[Difference], int]:
        """The differences from a recomputation of the topics' records, and how many rows were compared.

        `invoices` are the keys and values of the good records of `pos`.
        """
        expected = expect(partial(self._read, frozenset(invoices)))
        differences, rows = [], 0
        for node, url in self._settings.node_urls.items():
            with StateClient(url) as client:
                found = collect(client)
            differences += compare_systems(expected, found, f"node {node}")
            rows += sum(len(getattr(found, field.name)) for field in fields(Expected))
        return differences, rows

    def _read(self, invoices: frozenset[tuple[bytes | None, bytes | None]], topic: str) -> list[TopicRecord]:
        records = read_topic(self._settings.kafka, topic)
        if topic == POS:
            return [record for record in records if (record.key, record.value) in invoices]
        return records

    def _show_board(self, client: StateClient) -> None:
        top = client.ranked("players").top(_SHOWN).value
        rows = [(row.rank, row.value["Name"], row.score, row.value["GamesPlayed"]) for row in top]
        self._screen.table("Leaderboard (ranked store)", ("rank", "player", "best score", "games"), rows)

    def _show_orders(self) -> None:
        rows: list[tuple[Any, ...]] = []
        for node, url in self._settings.node_urls.items():
            with StateClient(url) as client:
                key = next(iter(client.global_store("order-locations").all())).key
                answer = client.global_store("order-locations").get(key)
                order = answer.value
                where = f"{order['Latitude']}, {order['Longitude']}"
                rows.append((node, key, order["Status"], where, _at_time(order["UpdatedTime"])))
        headings = ("asked node", "order", "status", "where", "since")
        self._screen.table("An order on its way (global store: each node has all of it)", headings, rows)

    def _show_sessions(self, client: StateClient) -> None:
        events = (orjson.loads(record.value or b"") for record in self._records if record.topic == "user-events")
        ended = max(event["EventTime"] for event in events)
        active = list(client.session("user-sessions").active(ended, GAP_MS))
        rows = [
            (row.key, _at_time(row.start_ms), row.value["EventCount"])
            for row in sorted(active, key=lambda row: -row.value["EventCount"])[:_SHOWN]
        ]
        title = f"Sessions active at {_at_time(ended)}: {_in_words(len(active), 'session')} (session store)"
        self._screen.table(title, ("user", "since", "events"), rows)

    def _show_prices(self, client: StateClient) -> None:
        rows = [(row.key, row.value["Price"]) for row in client.key_value("prices").all()]
        self._screen.table("Last prices (table of ticks)", ("symbol", "price"), rows)

    def _show_sales(self, client: StateClient) -> None:
        sold = list(client.window("sales").fetch_all(0, _LAST_MS))
        if not sold:
            return
        hour, _ = max(Counter(row.start_ms for row in sold).items(), key=lambda item: (item[1], item[0]))
        best = sorted((row for row in sold if row.start_ms == hour), key=lambda row: -row.value["Amount"])[:_SHOWN]
        rows = [
            (row.value["StoreID"], row.value["ItemCode"], row.value["Quantity"], f"{row.value['Amount']:.2f}")
            for row in best
        ]
        title = f"Best sales from {_at_time(hour)} to {_at_time(hour + HOUR_MS)} (window store)"
        self._screen.table(title, ("store", "item", "pieces", "amount"), rows)


def _at_time(time_ms: int) -> str:
    """A time to the minute, in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def _in_words(count: int, noun: str) -> str:
    """`1 session`, `2 sessions`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


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
