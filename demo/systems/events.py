"""The five systems' input: the same each time, out of order, some of it late, some of it twice."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import orjson

from demo.invoices import Record

BASE_MS = 1_700_000_000_000
"""The time of the first events, epoch milliseconds: times are fixed, not taken from a clock."""

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

_SYMBOLS = ("AAPL", "HDFC", "INFY", "MSFT", "TCS", "Unlisted-7", "WIPRO")
_PRODUCTS = ("chess", "go", "poker")
_STATUSES = ("PLACED", "PICKED-UP", "ON-THE-WAY", "DELIVERED")


def system_records(scale: int = 1) -> list[Record]:
    """Records for all topics but `pos`, in the order of publishing. `scale` multiplies their number."""
    return [*_ticks(scale), *_games(scale), *_orders(scale), *_user_events(scale)]


def _chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 (the same each time, which is wanted)


def _ticks(scale: int) -> Iterator[Record]:
    chance = _chance(1)
    for _ in range(200 * scale):
        price = f"{chance.randrange(100, 5000)}.{chance.randrange(100):02d}"
        yield Record("ticks", chance.choice(_SYMBOLS).encode(), price.encode())
    yield Record("ticks", b"WIPRO", None)


def _games(scale: int) -> Iterator[Record]:
    chance = _chance(2)
    for product in _PRODUCTS:
        yield _record("products", product, {"Name": product.title()})
    for number in range(50 * scale):
        yield _record("players", f"player-{number}", {"Name": f"Player {number}"})
    results = [
        {
            "ResultID": f"result-{number}",
            "PlayerID": f"player-{chance.randrange(50 * scale)}",
            "ProductID": chance.choice(_PRODUCTS),
            "Score": chance.randrange(1000),
            "PlayedTime": BASE_MS + number * 1000,
        }
        for number in range(500 * scale)
    ]
    for result in _untidy(results, chance, twice=0.05, swaps=20):
        yield _record("game-results", result["PlayerID"], result)


def _orders(scale: int) -> Iterator[Record]:
    chance = _chance(3)
    events = [
        {
            "OrderNumber": f"order-{number}",
            "Status": _STATUSES[step],
            "Latitude": round(chance.uniform(8, 32), 5),
            "Longitude": round(chance.uniform(70, 90), 5),
            "EventTime": BASE_MS + number * 1000 + step * 10 * MINUTE_MS,
        }
        for number in range(100 * scale)
        for step in range(chance.randrange(1, len(_STATUSES) + 1))
    ]
    for event in _untidy(events, chance, twice=0.1, swaps=50):
        yield _record("order-events", event["OrderNumber"], event)


def _user_events(scale: int) -> Iterator[Record]:
    chance = _chance(4)
    events: list[dict[str, Any]] = [
        {
            "EventID": f"event-{number}",
            "UserID": f"user-{chance.randrange(20 * scale)}",
            "EventTime": BASE_MS + int(chance.random() * 12 * HOUR_MS),
        }
        for number in range(800 * scale)
    ]
    # Most come within ten minutes of their time; one in twenty comes up to two hours after it.
    events.sort(key=lambda event: event["EventTime"] + chance.random() * _delay_ms(chance))
    for event in _untidy(events, chance, twice=0.1, swaps=0):
        yield _record("user-events", event["UserID"], event)


def _delay_ms(chance: random.Random) -> int:
    return 2 * HOUR_MS if chance.random() < 0.05 else 10 * MINUTE_MS


def _untidy(
    events: list[dict[str, Any]], chance: random.Random, *, twice: float, swaps: int
) -> Iterator[dict[str, Any]]:
    """Some events twice, and some swapped with their neighbours."""
    listed = [event for event in events for _ in range(1 + (chance.random() < twice))]
    for _ in range(swaps):
        at = chance.randrange(len(listed) - 1)
        listed[at], listed[at + 1] = listed[at + 1], listed[at]
    yield from listed


def _record(topic: str, key: str, value: dict[str, Any]) -> Record:
    return Record(topic, key.encode(), orjson.dumps(value))
