"""Aggregation of a table by another key: each change takes the old row out of one group and puts the new one in.

    table.map_values(...)  ──>  GroupedTable(table, selector).aggregate(count(), store)  ──>  a table of groups

The table above must send old values, so it, or one above it, needs a store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from state.errors import NullKeyError
from state.serdes.timestamped import ValueAndTimestamp
from state.tables.aggregator import Aggregator, count, reduction
from state.tables.change import Change, Forward, TableRecord, value_of
from state.tables.materialized import TableStore
from state.tables.table import KTable

K = TypeVar("K")
V = TypeVar("V")
G = TypeVar("G")
W = TypeVar("W")
A = TypeVar("A")

Selector = Callable[[K, V], tuple[G | None, W | None] | None]
"""Maps a row to its group's key and the value to aggregate; None for the row or either part leaves it out."""


class GroupedTable(Generic[G, W]):
    """A table's rows on their way to their groups: what Kafka Streams sends through a repartition topic."""

    def __init__(self, parent: KTable[K, V], selector: Selector[K, V, G, W]) -> None:
        """Groups the rows of `parent` by the result of `selector(key, value)`.

        Raises:
            ConfigurationError: no table from `parent` upwards has a store to read old values from.
        """
        parent.enable_sending_old_values(force=True)
        self._downstream: list[Forward[G, W]] = []

        def select(key: K, value: V | None) -> tuple[G, W] | None:
            pair = None if value is None else selector(key, value)
            return None if pair is None or pair[0] is None or pair[1] is None else (pair[0], pair[1])

        def on_change(record: TableRecord[K, V]) -> None:
            self._regroup(select(record.key, record.change.old), select(record.key, record.change.new), record)

        parent.subscribe(on_change)

    def subscribe(self, forward: Forward[G, W]) -> None:
        """Sends every later change of a row to `forward`, under the key of its group."""
        self._downstream.append(forward)

    def aggregate(self, aggregator: Aggregator[G, W, A], store: TableStore[G, A]) -> TableAggregation[G, W, A]:
        """A table of one aggregate a group.

        Raises:
            InvalidArgumentError: the aggregator can't subtract.
        """
        table = TableAggregation(aggregator, store)
        self._downstream.append(table.on_change)
        return table

    def count(self, store: TableStore[G, int]) -> TableAggregation[G, Any, int]:
        """How many rows each group has."""
        return self.aggregate(count(), store)

    def reduce(
        self, adder: Callable[[W, W], W], subtractor: Callable[[W, W], W], store: TableStore[G, W]
    ) -> TableAggregation[G, W, Any]:
        """The values of each group combined two at a time, `adder(aggregate, value)`, and taken out likewise."""
        return self.aggregate(reduction(adder, subtractor), store)

    def _regroup(self, old: tuple[G, W] | None, new: tuple[G, W] | None, record: TableRecord[Any, Any]) -> None:
        if old is not None and new is not None and old[0] == new[0]:
            # One change, so that nobody sees the group without the row in between.
            self._forward(TableRecord(new[0], Change(new[1], old[1]), record.timestamp_ms))
            return
        if old is not None:
            self._forward(TableRecord(old[0], Change(None, old[1]), record.timestamp_ms))
        if new is not None:
            self._forward(TableRecord(new[0], Change(new[1]), record.timestamp_ms))

    def _forward(self, record: TableRecord[G, W]) -> None:
        for forward in self._downstream:
            forward(record)


class TableAggregation(KTable[K, A], Generic[K, V, A]):
    """One aggregate for each key of a grouped table. The old value is subtracted before the new one is added.

    A row is stamped with the greatest timestamp of the changes in it, out-of-order ones included.
    """

    def __init__(self, aggregator: Aggregator[K, V, A], store: TableStore[K, A]) -> None:
        """Builds the table over its store.

        Raises:
            InvalidArgumentError: the aggregator can't subtract.
        """
        super().__init__(store)
        self._aggregator = aggregator
        self._subtract = aggregator.subtractor
        self._store = store

    def get(self, key: K) -> ValueAndTimestamp[A] | None:
        """The group's row as of now, or None."""
        return self._store.get(key)

    def enable_sending_old_values(self, *, force: bool = False) -> bool:
        """Makes changes carry old values; the store has them."""
        self._sends_old_values = True
        return True

    def on_change(self, record: TableRecord[K, V]) -> None:
        """Takes the next change of a row in the group `record.key`.

        Raises:
            NullKeyError: the group's key is None.
        """
        key = record.key
        if key is None:
            raise NullKeyError("a group's key can't be None: let the selector return None to leave the row out")
        row = self._store.get(key)
        aggregate = self._replaced(key, record.change, value_of(row))
        timestamp_ms = record.timestamp_ms if row is None else max(record.timestamp_ms, row.timestamp_ms)
        old = value_of(row) if self._sends_old_values else None
        self._write(self._store, TableRecord(key, Change(aggregate, old), timestamp_ms))

    def _replaced(self, key: K, change: Change[V], aggregate: A | None) -> A | None:
        if change.old is not None and aggregate is not None:
            aggregate = self._subtract(key, change.old, aggregate)
        if change.new is None:
            return aggregate
        return self._aggregator.add(key, change.new, self._aggregator.initialize() if aggregate is None else aggregate)
