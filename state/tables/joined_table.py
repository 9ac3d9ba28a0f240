"""Joins of two tables by their common key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from state.serdes.timestamped import ValueAndTimestamp
from state.tables.change import Change, TableRecord
from state.tables.materialized import TableStore
from state.tables.table import KTable

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
R = TypeVar("R")


class JoinedTable(KTable[K, R], Generic[K, V, W, R]):
    """The rows of two tables, joined by key.

    A result is stamped with the later of its two rows. A row that is gone sends a tombstone if there was a result.
    """

    def __init__(
        self,
        left: KTable[K, V],
        right: KTable[K, W],
        joiner: Callable[[K, V | None, W | None], R],
        *,
        left_alone: bool = False,
        right_alone: bool = False,
        store: TableStore[K, R] | None = None,
    ) -> None:
        """Subscribes to both tables.

        Args:
            left: the one table.
            right: the other.
            joiner: `joiner(key, left, right)`.
            left_alone: whether a left row without a right one gives a result.
            right_alone: whether a right row without a left one does.
            store: for the results; None computes them at each look-up.

        Raises:
            ConfigurationError: one of the tables can't look rows up.
        """
        super().__init__()
        self._left, self._right = left, right
        self._joiner = joiner
        self._left_alone, self._right_alone = left_alone, right_alone
        self._sends_old_values = True
        self._store = store
        left.enable_sending_old_values(force=True)
        right.enable_sending_old_values(force=True)
        left.subscribe(self._on_left)
        right.subscribe(self._on_right)

    def get(self, key: K) -> ValueAndTimestamp[R] | None:
        """The joined row as of now, or None."""
        if self._store is not None:
            return self._store.get(key)
        left, right = self._left.get(key), self._right.get(key)
        value = self._join(key, None if left is None else left.value, None if right is None else right.value)
        if value is None:
            return None
        return ValueAndTimestamp(value, max(row.timestamp_ms for row in (left, right) if row is not None))

    def enable_sending_old_values(self, *, force: bool = False) -> bool:
        """Changes always carry old values: the tables above have them."""
        return True

    def _join(self, key: K, left: V | None, right: W | None) -> R | None:
        if left is None and right is None:
            return None
        if (right is None and not self._left_alone) or (left is None and not self._right_alone):
            return None
        return self._joiner(key, left, right)

    def _on_left(self, record: TableRecord[K, V]) -> None:
        other = self._right.get(record.key)
        value = None if other is None else other.value
        self._changed(record, other, lambda side: self._join(record.key, side, value))

    def _on_right(self, record: TableRecord[K, W]) -> None:
        other = self._left.get(record.key)
        value = None if other is None else other.value
        self._changed(record, other, lambda side: self._join(record.key, value, side))

    def _changed(
        self,
        record: TableRecord[K, Any],
        other: ValueAndTimestamp[Any] | None,
        join: Callable[[Any], R | None],
    ) -> None:
        joined: Change[R] = Change(join(record.change.new), join(record.change.old))
        if joined.new is None and joined.old is None:
            return
        timestamp_ms = record.timestamp_ms if other is None else max(record.timestamp_ms, other.timestamp_ms)
        self._write(self._store, TableRecord(record.key, joined, timestamp_ms))
