"""What came out of a table, in short rows that tests can compare."""

from __future__ import annotations

from typing import Any, NamedTuple

from storekeeper.topology.records import Change
from storekeeper.topology.table import Table


class Seen(NamedTuple):
    """One change."""

    key: Any
    change: Change[Any]
    timestamp_ms: int


class Observed:
    """Collects a table's changes; each reading empties it."""

    def __init__(self, table: Table[Any, Any]) -> None:
        self._seen: list[Seen] = []
        table.subscribe(self.add)

    def add(self, key: Any, change: Change[Any], timestamp_ms: int) -> None:
        """Takes a change."""
        self._seen.append(Seen(key, change, timestamp_ms))

    def rows(self) -> list[tuple[Any, Any, int]]:
        """(key, new value, timestamp)."""
        return [(seen.key, seen.change.new, seen.timestamp_ms) for seen in self.taken()]

    def changes(self) -> list[tuple[Any, Any, Any]]:
        """(key, new value, old value)."""
        return [(seen.key, seen.change.new, seen.change.old) for seen in self.taken()]

    def windows(self) -> list[tuple[Any, int, int, Any, int]]:
        """(key, window start, window end, new value, timestamp)."""
        return [(*seen.key, seen.change.new, seen.timestamp_ms) for seen in self.taken()]

    def taken(self) -> list[Seen]:
        """The changes since the last reading."""
        taken = self._seen.copy()
        self._seen.clear()
        return taken
