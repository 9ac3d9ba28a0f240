"""Aggregation of a stream by key alone, without windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from state.serdes.timestamped import ValueAndTimestamp
from state.tables.aggregator import Adder
from state.tables.change import Change, TableRecord
from state.tables.dropped_records import DroppedRecords, DropReason
from state.tables.materialized import TableStore
from state.tables.table import KTable

K = TypeVar("K")
A = TypeVar("A")


class KeyAggregation(KTable[K, A]):
    """A table of one aggregate for each key. Records without key or value are left out and counted.

    A row is stamped with the greatest timestamp of the records in it.
    """

    def __init__(self, initialize: Callable[[], A], store: TableStore[K, A], dropped: DroppedRecords) -> None:
        super().__init__()
        self._initialize = initialize
        self._store = store
        self._dropped = dropped

    def get(self, key: K) -> ValueAndTimestamp[A] | None:
        """The key's row as of now, or None."""
        return self._store.get(key)

    def enable_sending_old_values(self, *, force: bool = False) -> bool:
        """Makes changes carry old values; the store has them."""
        self._sends_old_values = True
        return True

    def adding(self, add: Adder[K, Any, A]) -> Callable[[K | None, Any, int], None]:
        """A function that takes the records of one stream. Streams with adders of their own share the table."""
        get, put, initialize, drop = self._store.get, self._store.put, self._initialize, self._dropped.drop
        downstream = self._downstream

        def process(key: K | None, value: Any, timestamp_ms: int) -> None:
            if value is None or key is None:
                drop(DropReason.NULL_VALUE if key is not None else DropReason.NULL_KEY)
                return
            row = get(key)
            if row is None:
                old, new = None, add(key, value, initialize())
            else:
                old = row.value
                new = add(key, value, old)
                if row.timestamp_ms > timestamp_ms:  # noqa: PLR1730 (a call costs four times as much)
                    timestamp_ms = row.timestamp_ms
            put(key, None if new is None else ValueAndTimestamp(new, timestamp_ms))
            if downstream:
                record = TableRecord(key, Change(new, old if self._sends_old_values else None), timestamp_ms)
                for forward in downstream:
                    forward(record)

        return process
