"""What the smaller apps must have written, recomputed from the records of their topics alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from demo.comparison import TopicRecord
from demo.systems.oracle import MINUTE_MS, expected_prices, expected_sales, expected_sessions
from harness.crashes.oracle import Bad, Difference, KindOf, bad, dead_letters, exact
from harness.topics import Record

SOURCES = {
    "ticks": ("ticks",),
    "leaderboard": ("game-results", "players", "products"),
    "order_location": ("order-events",),
    "session_tracker": ("user-events",),
    "sales_windows": ("pos",),
}
_WITHOUT_LETTERS = "sales_windows"
"""The app `pos` reports what this app can't read."""
DEAD_LETTERS = tuple(f"{app}-dlq" for app in SOURCES if app != _WITHOUT_LETTERS)
CHANGELOGS = (
    "ticks-prices-changelog",
    *("leaderboard-standings-changelog", "leaderboard-players-changelog", "leaderboard-products-changelog"),
    *("order_location-order-times-changelog", "order_location-orders-changelog", "order-locations"),
    *("session_tracker-seen-events-changelog", "session_tracker-user-sessions-changelog"),
    *("sales_windows-seen-sales-changelog", "sales_windows-sales-changelog", "sales_windows-sales-hopping-changelog"),
)
_ENDED = ("DELIVERED", "CANCELLED")
_HOUR_MS = 60 * MINUTE_MS

Json = dict[str, Any]


@dataclass(slots=True)
class SystemsOracle:
    """The records that arrived, by topic, and what follows from them.

    `kind_of` says of a topic, a key and a value which kind of poison they were made to be, or None.
    """

    read: Callable[[str], list[Record]]
    kind_of: KindOf

    def differences(self) -> list[Difference]:
        """How the rows of each store and the dead letters of each app differ."""
        expected = self.rows()
        found = {topic: self.read(topic) for topic in CHANGELOGS}
        return [
            *(Difference.between(topic, map(_row, rows), map(_row, _newest(found[topic])))
              for topic, rows in expected.items()),
            *(_twice(topic, records) for topic, records in found.items()),
            *(dead_letters(app, self._bad(app), self.read(f"{app}-dlq")) for app in SOURCES if app != _WITHOUT_LETTERS),
        ]  # fmt: skip

    def rows(self) -> dict[str, list[Json]]:
        """The rows that each store must hold, by its changelog."""
        orders = self._orders()
        sales = expected_sales(self._as_read("pos"))
        return {
            "ticks-prices-changelog": [
                {"Symbol": symbol, "Price": price} for symbol, price in expected_prices(self._as_read("ticks")).items()
            ],
            "leaderboard-players-changelog": self._players(),
            "leaderboard-products-changelog": [
                {"ProductID": key.decode(), **row} for key, row in self._named("products").items()
            ],
            "order_location-orders-changelog": orders,
            "order-locations": orders,
            "session_tracker-user-sessions-changelog": [
                {"UserID": user, "SessionStart": start_ms, "LastActivity": end_ms, "EventCount": events}
                for (user, start_ms, end_ms), events in expected_sessions(self._as_read("user-events")).items()
            ],
            "sales_windows-sales-changelog": _windows(sales["sales"]),
            "sales_windows-sales-hopping-changelog": _windows(sales["sales-hopping"]),
        }

    def _good(self, topic: str) -> list[Record]:
        return [record for record in self.read(topic) if self.kind_of(topic, record.key, record.value) is None]

    def _as_read(self, topic: str) -> list[TopicRecord]:
        return [TopicRecord(r.partition, r.offset, r.key, r.value, {}) for r in self._good(topic)]

    def _bad(self, app: str) -> list[Bad]:
        return [record for topic in SOURCES[app] for record in bad(self.kind_of, topic, self.read(topic))]

    def _named(self, topic: str) -> dict[bytes, Json]:
        return {record.key or b"": exact(record.value) for record in self._good(topic)}

    def _players(self) -> list[Json]:
        """Each result counts once."""
        names = self._named("players")
        results = [exact(record.value) for record in self._good("game-results")]
        once = {(result["PlayerID"], result["ResultID"]): result for result in results}
        by_player: dict[str, list[Json]] = {}
        for result in once.values():
            by_player.setdefault(result["PlayerID"], []).append(result)
        return [
            {
                "PlayerID": player,
                "Name": names.get(player.encode(), {}).get("Name"),
                "HighScore": max(result["Score"] for result in own),
                "HighScoreProduct": min(own, key=lambda result: (-result["Score"], result["ProductID"]))["ProductID"],
                "GamesPlayed": len(own),
                "TotalScore": sum(result["Score"] for result in own),
                "LastPlayed": max(result["PlayedTime"] for result in own),
            }
            for player, own in by_player.items()
        ]

    def _orders(self) -> list[Json]:
        """The newest event of each order; of two with the same time, the later one."""
        newest: dict[str, Json] = {}
        for event in (exact(record.value) for record in self._good("order-events")):
            known = newest.get(event["OrderNumber"])
            if known is None or event["EventTime"] >= known["EventTime"]:
                newest[event["OrderNumber"]] = event
        return [
            {"UpdatedTime" if name == "EventTime" else name: value for name, value in event.items()}
            for event in newest.values()
            if event["Status"] not in _ENDED
        ]


def _windows(rows: Mapping[tuple[str, int], tuple[Any, ...]]) -> list[Json]:
    return [
        {
            **dict(zip(("StoreID", "ItemCode"), key.split("/"), strict=True)),
            "WindowStart": start_ms,
            "WindowEnd": start_ms + _HOUR_MS,
            "Sales": sales,
            "Quantity": quantity,
            "Amount": amount,
        }
        for (key, start_ms), (sales, quantity, amount) in rows.items()
    ]


def _newest(records: Iterable[Record]) -> list[Json]:
    newest = {(record.partition, record.key): record.value for record in records}
    return [exact(value) for value in newest.values() if value is not None]


def _twice(topic: str, records: Iterable[Record]) -> Difference:
    """What a batch wrote more than once."""
    written = [(record.partition, record.key, record.headers.get("batch-id")) for record in records]
    return Difference(f"{topic}, records", 0, sum(times - 1 for times in Counter(written).values()))


def _row(row: Mapping[str, Any]) -> Hashable:
    return tuple(sorted(row.items()))
