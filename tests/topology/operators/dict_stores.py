"""Stores that are plain dictionaries: the simplest thing that a table can stand on."""

from __future__ import annotations

from typing import Generic, TypeVar

from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.windowed import Windowed

K = TypeVar("K")
V = TypeVar("V")


class DictTable(Generic[K, V]):
    """A `TableStore`."""

    def __init__(self) -> None:
        self.rows: dict[K, ValueAndTimestamp[V]] = {}

    def get(self, key: K) -> ValueAndTimestamp[V] | None:
        return self.rows.get(key)

    def value(self, key: K) -> V | None:
        return self.rows[key].value if key in self.rows else None

    def put(self, key: K, row: ValueAndTimestamp[V] | None) -> None:
        if row is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row


class DictWindows(Generic[V]):
    """A `WindowRows` with text keys."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int], ValueAndTimestamp[V]] = {}

    def fetch_one(self, key: str, start_ms: int) -> ValueAndTimestamp[V] | None:
        return self.rows.get((key, start_ms))

    def fetch(self, key: str, from_ms: int, to_ms: int) -> list[tuple[int, ValueAndTimestamp[V]]]:
        return [(start, row) for (k, start), row in sorted(self.rows.items()) if k == key and from_ms <= start <= to_ms]

    def fetch_all(self, from_ms: int, to_ms: int) -> list[tuple[Windowed[str], ValueAndTimestamp[V]]]:
        return [
            (Windowed(key, start, -1), row)
            for (key, start), row in sorted(self.rows.items())
            if from_ms <= start <= to_ms
        ]

    def put(self, key: str, row: ValueAndTimestamp[V] | None, start_ms: int) -> None:
        if row is None:
            self.rows.pop((key, start_ms), None)
        else:
            self.rows[key, start_ms] = row


class DictSessions(Generic[V]):
    """A `SessionRows` with text keys."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int, int], V] = {}

    def fetch_session(self, key: str, start_ms: int, end_ms: int) -> V | None:
        return self.rows.get((key, start_ms, end_ms))

    def find_sessions(self, key: str, earliest_end_ms: int, latest_start_ms: int) -> list[tuple[Windowed[str], V]]:
        return [
            (Windowed(key, start, end), value)
            for (k, start, end), value in sorted(self.rows.items(), key=lambda row: row[0])
            if k == key and end >= earliest_end_ms and start <= latest_start_ms
        ]

    def find_sessions_ended(self, from_ms: int, to_ms: int) -> list[tuple[Windowed[str], V]]:
        return [
            (Windowed(key, start, end), value)
            for (key, start, end), value in sorted(self.rows.items(), key=lambda row: row[0])
            if from_ms <= end <= to_ms
        ]

    def put(self, key: str, start_ms: int, end_ms: int, aggregate: V | None) -> None:
        if aggregate is None:
            self.rows.pop((key, start_ms, end_ms), None)
        else:
            self.rows[key, start_ms, end_ms] = aggregate
