"""A table that keeps the earlier values of its keys, and so can be read as of a time."""

from __future__ import annotations

from typing import TypeVar

from state.serdes.timestamped import ValueAndTimestamp
from state.stores.versioned import NOT_PUT_MS, VALID_TO_UNDEFINED_MS, VersionedKeyValueStore
from state.tables.change import Change, TableRecord
from state.tables.dropped_records import DroppedRecords, DropReason
from state.tables.table import KTable

K = TypeVar("K")
V = TypeVar("V")


class VersionedTable(KTable[K, V]):
    """A table read from a log of upserts and tombstones, ordered by their timestamps.

    A record that is older than its key's newest value changes only the history: nothing goes downstream. One that is
    older than the history is left out and counted.
    """

    def __init__(self, store: VersionedKeyValueStore[K, V], dropped: DroppedRecords | None = None) -> None:
        super().__init__()
        self.dropped = DroppedRecords() if dropped is None else dropped
        self._store = store

    def upsert(self, key: K | None, value: V | None, timestamp_ms: int) -> None:
        """Takes the log's next record. A None value means that the key was deleted at that time."""
        if key is None:
            self.dropped.drop(DropReason.NULL_KEY)
            return
        old = self._store.get(key) if self._sends_old_values else None
        valid_to_ms = self._store.put(key, value, timestamp_ms)
        if valid_to_ms == NOT_PUT_MS:
            self.dropped.drop(DropReason.EXPIRED_WINDOW)
        elif valid_to_ms == VALID_TO_UNDEFINED_MS:
            change = Change(value, None if old is None else old.value)
            self._forward(TableRecord(key, change, timestamp_ms))

    def get(self, key: K) -> ValueAndTimestamp[V] | None:
        """The key's newest row, or None."""
        found = self._store.get(key)
        return None if found is None else ValueAndTimestamp(found.value, found.timestamp_ms)

    def get_as_of(self, key: K, timestamp_ms: int) -> ValueAndTimestamp[V] | None:
        """The row that was valid at a time, or None if there was none, or if history does not go back so far."""
        found = self._store.get(key, timestamp_ms)
        return None if found is None else ValueAndTimestamp(found.value, found.timestamp_ms)

    def enable_sending_old_values(self, *, force: bool = False) -> bool:
        """Makes changes carry old values; the store has them."""
        self._sends_old_values = True
        return True
