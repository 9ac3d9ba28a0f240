"""What came out of a table, in short rows that tests can compare."""

from __future__ import annotations

from typing import Any

from state.tables.change import TableRecord
from state.tables.table import KTable


class Observed:
    """Collects a table's changes; each reading empties it."""

    def __init__(self, table: KTable[Any, Any]) -> None:
        self._records: list[TableRecord[Any, Any]] = []
        table.subscribe(self._records.append)

    def rows(self) -> list[tuple[Any, Any, int]]:
        """(key, new value, timestamp)."""
        return [(record.key, record.change.new, record.timestamp_ms) for record in self._taken()]

    def changes(self) -> list[tuple[Any, Any, Any]]:
        """(key, new value, old value)."""
        return [(record.key, record.change.new, record.change.old) for record in self._taken()]

    def windows(self) -> list[tuple[Any, int, int, Any, int]]:
        """(key, window start, window end, new value, timestamp)."""
        return [
            (
                record.key.key,
                record.key.start_ms,
                record.key.end_ms,
                record.change.new,
                record.timestamp_ms,
            )
            for record in self._taken()
        ]

    def _taken(self) -> list[TableRecord[Any, Any]]:
        taken = self._records.copy()
        self._records.clear()
        return taken
