"""Tables: streams of upserts and tombstones, read as the newest row of each key, with what can be derived from them.

A table pushes each change to its subscribers, at once and on the caller's thread; nothing here starts threads or
does I/O beside the given stores. A table follows its log's order: a record with an earlier timestamp than the row
still replaces it. Tables aren't thread-safe: one thread feeds a partition's tables.

A table may send old values with its changes. Aggregations of a table need them, to subtract the old value before they
add the new one; filters use them to send no tombstones for rows that never passed.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from state.errors import ConfigurationError
from state.serdes.timestamped import ValueAndTimestamp
from state.tables.change import Change, Forward, TableRecord, value_of
from state.tables.change_forwarder import ChangeForwarder
from state.tables.dropped_records import DroppedRecords, DropReason
from state.tables.materialized import TableStore

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")

Predicate = Callable[[K, V], bool]
ValueMapper = Callable[[K, V], W]


class KTable(ABC, Generic[K, V]):
    """A table of rows `key -> (value, timestamp)` and the stream of their changes."""

    def __init__(self, store: object = None) -> None:
        """Starts without subscribers. If `store` has a cache, its flushes forward the changes that are written."""
        self._downstream: list[Forward[K, V]] = []
        self._subscribers = self._downstream
        self._sends_old_values = False
        self._changes: ChangeForwarder[K, V] = ChangeForwarder(store, self._forward)

    @property
    def sends_old_values(self) -> bool:
        """Whether changes carry the old value."""
        return self._sends_old_values

    @abstractmethod
    def get(self, key: K) -> ValueAndTimestamp[V] | None:
        """The key's row as of now, or None.

        Raises:
            ConfigurationError: neither this table nor one above it has a store to read.
        """

    def get_as_of(self, key: K, timestamp_ms: int) -> ValueAndTimestamp[V] | None:
        """The row that was valid at a time, where the table is versioned; else the row as of now."""
        return self.get(key)

    @abstractmethod
    def enable_sending_old_values(self, *, force: bool = False) -> bool:
        """Makes changes carry old values, if this table or one above it has a store to read them from.

        Args:
            force: whether old values are indispensable.

        Returns:
            Whether changes carry old values from now on.

        Raises:
            ConfigurationError: `force`, and no table from here upwards has a store.
        """

    def subscribe(self, forward: Forward[K, V]) -> None:
        """Sends every later change to `forward`, after those that subscribed before."""
        self._subscribers.append(forward)

    def hold_back(self) -> Callable[[], None]:
        """Holds changes back from those that subscribe later.

        Returns:
            A function that lets the last change of each key go, with the old value from before the first.
        """
        subscribers: list[Forward[K, V]] = []
        self._subscribers = subscribers
        held: dict[K, TableRecord[K, V]] = {}

        def hold(record: TableRecord[K, V]) -> None:
            earlier = held.pop(record.key, None)
            change = record.change if earlier is None else Change(record.change.new, earlier.change.old)
            held[record.key] = TableRecord(record.key, change, record.timestamp_ms)

        def release() -> None:
            records = list(held.values())
            held.clear()
            for record in records:
                for forward in subscribers:
                    forward(record)

        self._downstream.append(hold)
        return release

    def to_stream(self, forward: Callable[[K, V | None, int], None]) -> None:
        """Sends every later change to `forward` as a record of key, new value (None: tombstone) and timestamp."""
        self.subscribe(lambda record: forward(record.key, record.change.new, record.timestamp_ms))

    def filter(self, predicate: Predicate[K, V], *, store: TableStore[K, V] | None = None) -> KTable[K, V]:
        """The rows for which `predicate(key, value)` holds; see `FilteredTable` for its tombstones."""
        return FilteredTable(self, predicate, store)

    def filter_not(self, predicate: Predicate[K, V], *, store: TableStore[K, V] | None = None) -> KTable[K, V]:
        """The rows for which `predicate(key, value)` doesn't hold."""
        return FilteredTable(self, lambda key, value: not predicate(key, value), store)

    def map_values(self, mapper: ValueMapper[K, V, W], *, store: TableStore[K, W] | None = None) -> KTable[K, W]:
        """The same keys with `mapper(key, value)`. A mapper's None is a tombstone."""
        return MappedTable(self, mapper, store)

    def _write(self, store: TableStore[K, V] | None, record: TableRecord[K, V]) -> None:
        """Puts the new row to the store, if there is one, and forwards the change."""
        self._changes.announce(record)
        if store is not None:
            new = record.change.new
            store.put(record.key, None if new is None else ValueAndTimestamp(new, record.timestamp_ms))
        self._changes.forward(record)

    def _forward(self, record: TableRecord[K, V]) -> None:
        for forward in self._downstream:
            forward(record)


class SourceTable(KTable[K, V]):
    """A table read from a log of upserts and tombstones.

    Without a store it only passes changes on: it can't be queried and has no old values. Records with a null key
    are counted and left out.
    """

    def __init__(self, store: TableStore[K, V] | None = None, dropped: DroppedRecords | None = None) -> None:
        super().__init__(store)
        self.dropped = DroppedRecords() if dropped is None else dropped
        self._store = store

    def upsert(self, key: K | None, value: V | None, timestamp_ms: int) -> None:
        """Takes the log's next record: replaces the key's row, or deletes it if `value` is None."""
        if key is None:
            self.dropped.drop(DropReason.NULL_KEY)
            return
        old = self._store.get(key) if self._store is not None and self._sends_old_values else None
        self._write(self._store, TableRecord(key, Change(value, value_of(old)), timestamp_ms))

    def get(self, key: K) -> ValueAndTimestamp[V] | None:
        """The key's row as of now, or None."""
        return _required(self._store).get(key)

    def enable_sending_old_values(self, *, force: bool = False) -> bool:
        """Makes changes carry old values if there is a store."""
        if force:
            _required(self._store)
        self._sends_old_values = self._store is not None
        return self._sends_old_values


class DerivedTable(KTable[K, W], Generic[K, V, W]):
    """A table whose every row follows from the same key's row in the table above.

    With a store it is materialized: it answers queries and has old values itself. Without, it asks the table
    above and derives again.
    """

    def __init__(self, parent: KTable[K, V], store: TableStore[K, W] | None) -> None:
        super().__init__(store)
        self._parent = parent
        self._store = store
        parent.subscribe(self._on_change)

    @abstractmethod
    def _derive(self, key: K, value: V) -> W | None:
        """The row's value here, or None if the row doesn't exist here."""

    def get(self, key: K) -> ValueAndTimestamp[W] | None:
        """The key's row as of now, or None."""
        return self._derived_row(key, self._parent.get(key)) if self._store is None else self._store.get(key)

    def get_as_of(self, key: K, timestamp_ms: int) -> ValueAndTimestamp[W] | None:
        """The row that was valid at a time, from the table above."""
        row = self._parent.get_as_of(key, timestamp_ms)
        return self._derived_row(key, row) if self._store is None else self._store.get(key)

    def _derived_row(self, key: K, row: ValueAndTimestamp[V] | None) -> ValueAndTimestamp[W] | None:
        value = None if row is None else self._derive(key, row.value)
        return None if row is None or value is None else ValueAndTimestamp(value, row.timestamp_ms)

    def enable_sending_old_values(self, *, force: bool = False) -> bool:
        """Makes changes carry old values: from this table's store, else from the table above."""
        if self._store is not None or self._parent.enable_sending_old_values(force=force):
            self._sends_old_values = True
        return self._sends_old_values

    def _derive_or_none(self, key: K, value: V | None) -> W | None:
        return None if value is None else self._derive(key, value)

    def _old_value(self, record: TableRecord[K, V]) -> W | None:
        if not self._sends_old_values:
            return None
        if self._store is not None:
            return value_of(self._store.get(record.key))
        return self._derive_or_none(record.key, record.change.old)

    def _on_change(self, record: TableRecord[K, V]) -> None:
        change = Change(self._derive_or_none(record.key, record.change.new), self._old_value(record))
        if self._is_superfluous(change):
            return
        self._write(self._store, TableRecord(record.key, change, record.timestamp_ms))

    def _is_superfluous(self, change: Change[W]) -> bool:
        return False


class FilteredTable(DerivedTable[K, V, V]):
    """The rows of a table that a predicate lets through.

    A row that stops matching becomes a tombstone, as downstream may hold it. A row that never matched needs none,
    and sends none where old values are known: whenever the table above has a store, or one was asked for
    with `enable_sending_old_values`. Else every row that doesn't match goes out as a tombstone, to be safe.
    """

    def __init__(self, parent: KTable[K, V], predicate: Predicate[K, V], store: TableStore[K, V] | None) -> None:
        super().__init__(parent, store)
        self._predicate = predicate
        self._sends_old_values = parent.enable_sending_old_values()

    def _derive(self, key: K, value: V) -> V | None:
        return value if self._predicate(key, value) else None

    def _is_superfluous(self, change: Change[V]) -> bool:
        return self._sends_old_values and change.new is None and change.old is None


class MappedTable(DerivedTable[K, V, W]):
    """The rows of a table with their values mapped one by one. Every change goes on, tombstones as tombstones."""

    def __init__(self, parent: KTable[K, V], mapper: ValueMapper[K, V, W], store: TableStore[K, W] | None) -> None:
        super().__init__(parent, store)
        self._mapper = mapper

    def _derive(self, key: K, value: V) -> W | None:
        return self._mapper(key, value)


def key_matches(pattern: str) -> Predicate[str, object]:
    """A predicate for filters: the whole key, a string, matches the regular expression.

    Raises:
        ConfigurationError: the pattern is no regular expression.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        msg = f"{pattern!r} is no regular expression ({error}): correct it, or escape it to match it literally"
        raise ConfigurationError(msg) from error
    return lambda key, _value: compiled.fullmatch(key) is not None


def _required(store: TableStore[K, V] | None) -> TableStore[K, V]:
    if store is None:
        raise ConfigurationError(
            "this table has no store to look rows up in: give its source, or a table on the way, one"
        )
    return store
