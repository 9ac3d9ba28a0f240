"""The five systems' expected results, recomputed in plain Python from the records in their topics.

It shares no code with the apps that it checks: the rules are written down a second time, for whole topics, without
batches, timers or state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

from demo.comparison import Difference, TopicRecord

MINUTE_MS = 60_000
GAP_MS = 30 * MINUTE_MS
SESSION_GRACE_MS = 10 * MINUTE_MS
WINDOW_MS = 60 * MINUTE_MS
HOP_MS = 15 * MINUTE_MS
RETENTION_MS = 7 * 24 * 60 * MINUTE_MS
SALES_GRACE_MS = RETENTION_MS
"""The demo replays months in seconds: a batch may begin days before the end of the one before it. With this grace no
sale is late for the windows of the last days."""
SYMBOL = re.compile("[A-Z]{1,5}")

Rows = dict[Any, Any]


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected content, by store."""

    prices: Rows
    players: Rows
    products: Rows
    order_locations: Rows
    orders: Rows
    sessions: Rows
    sales: Rows
    sales_hopping: Rows


def expect(read: Callable[[str], Sequence[TopicRecord]]) -> Expected:
    """The expected content of the stores. `read` returns a topic's records, by partition and offset."""
    orders = expected_orders(read("order-events"))
    sales = expected_sales(read("pos"))
    return Expected(
        prices=expected_prices(read("ticks")),
        players=expected_players(read("game-results")),
        products=expected_products(read("products")),
        order_locations=orders,
        orders=orders,
        sessions=expected_sessions(read("user-events")),
        sales=of_the_last_days(sales["sales"]),
        sales_hopping=of_the_last_days(sales["sales-hopping"]),
    )


def expected_prices(ticks: Iterable[TopicRecord]) -> Rows:
    """Symbol -> price."""
    prices: Rows = {}
    for tick in ticks:
        symbol = (tick.key or b"").decode()
        if not SYMBOL.fullmatch(symbol):
            continue
        prices.pop(symbol, None)
        if tick.value:
            prices[symbol] = Decimal(tick.value.decode())
    return prices


def expected_players(results: Iterable[TopicRecord]) -> Rows:
    """Player -> (best score, games, sum)."""
    games = {(result["PlayerID"], result["ResultID"]): result["Score"] for result in map(_read, results)}
    players: Rows = {}
    for (player, _), score in games.items():
        best, count, total = players.get(player, (0, 0, 0))
        players[player] = max(best, score), count + 1, total + score
    return players


def expected_products(names: Iterable[TopicRecord]) -> Rows:
    """Product -> name."""
    return {(record.key or b"").decode(): _read(record)["Name"] for record in names}


def expected_orders(events: Iterable[TopicRecord]) -> Rows:
    """Order -> (status, time), of those on their way."""
    newest: dict[str, dict[str, Any]] = {}
    for event in map(_read, events):
        known = newest.get(event["OrderNumber"])
        if known is None or event["EventTime"] >= known["EventTime"]:
            newest[event["OrderNumber"]] = event
    return {
        order: (event["Status"], event["EventTime"])
        for order, event in newest.items()
        if event["Status"] not in {"DELIVERED", "CANCELLED"}
    }


def expected_sessions(events: Iterable[TopicRecord]) -> Rows:
    """(user, start, end) -> events. Late ones are left out."""
    taken: dict[str, set[tuple[int, str]]] = {}
    for now_ms, event in _timed(events, "EventTime"):
        if event["EventTime"] + GAP_MS + SESSION_GRACE_MS >= now_ms:
            taken.setdefault(event["UserID"], set()).add((event["EventTime"], event["EventID"]))
    sessions: Rows = {}
    for user, own in taken.items():
        for session in _islands(sorted(time_ms for time_ms, _ in own)):
            sessions[user, session[0], session[-1]] = len(session)
    return sessions


def expected_sales(invoices: Iterable[TopicRecord]) -> dict[str, Rows]:
    """Per store (key, window start) -> (sales, quantity, amount), as if no window was ever removed."""
    stores: dict[str, Rows] = {"sales": {}, "sales-hopping": {}}
    seen: set[tuple[str, str, int]] = set()
    for _, invoice in _timed(invoices, "CreatedTime"):
        identity = invoice["StoreID"], invoice["InvoiceNumber"], invoice["CreatedTime"]
        if identity in seen:
            continue
        seen.add(identity)
        for store, start_ms in _windows(invoice["CreatedTime"]):
            for item, (quantity, amount) in _items(invoice).items():
                key = f"{invoice['StoreID']}/{item}", start_ms
                count, pieces, total = stores[store].get(key, (0, 0, Decimal(0)))
                stores[store][key] = count + 1, pieces + quantity, total + amount
    return stores


def of_the_last_days(windows: Rows) -> Rows:
    """The windows that can't have missed a sale and are still there: those within the grace before the newest one."""
    newest_ms = max((start_ms for _, start_ms in windows), default=0)
    return {key: row for key, row in windows.items() if key[1] > newest_ms - SALES_GRACE_MS}


def _windows(time_ms: int) -> Iterator[tuple[str, int]]:
    yield "sales", time_ms - time_ms % WINDOW_MS
    for back in range(WINDOW_MS // HOP_MS):
        yield "sales-hopping", time_ms - time_ms % HOP_MS - back * HOP_MS


def _items(invoice: dict[str, Any]) -> dict[str, tuple[int, Decimal]]:
    items: dict[str, tuple[int, Decimal]] = {}
    for line in invoice["InvoiceLineItems"]:
        quantity, amount = items.get(line["ItemCode"], (0, Decimal(0)))
        items[line["ItemCode"]] = quantity + line["ItemQty"], amount + Decimal(line["TotalValue"])
    return items


def _timed(records: Iterable[TopicRecord], field: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """(newest time that the partition has seen, record)."""
    newest: dict[int, int] = {}
    for record in records:
        content = _read(record)
        if not isinstance(content, dict) or field not in content:
            continue
        newest[record.partition] = max(newest.get(record.partition, -1), content[field])
        yield newest[record.partition], content


def _islands(times: list[int]) -> Iterator[list[int]]:
    island: list[int] = []
    for time_ms in times:
        if island and time_ms - island[-1] > GAP_MS:
            yield island
            island = []
        island.append(time_ms)
    if island:
        yield island


def _read(record: TopicRecord) -> Any:
    return json.loads(record.value or b"null", parse_float=Decimal)


def compare_systems(expected: Expected, found: Expected, asked: str = "the nodes") -> list[Difference]:
    """Every row that differs, is missing, or is unexpected. `asked` names the source of `found`."""
    return [
        Difference(f"{field.name.replace('_', ' ')} by {asked}", str(key), str(must.get(key)), str(holds.get(key)))
        for field in fields(Expected)
        for must, holds in [(getattr(expected, field.name), getattr(found, field.name))]
        for key in {**must, **holds}
        if must.get(key) != holds.get(key)
    ]
