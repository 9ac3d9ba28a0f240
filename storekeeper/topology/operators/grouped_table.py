"""Aggregation of a table by another key: each change takes the old row out of one group and puts the new one in.

    table ──changes under their groups' keys──> repartition topic ──> a table of groups

The table above must send old values, so it, or one above it, needs a store.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from storekeeper.errors import NullKeyError
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.topology.aggregator import Aggregator
from storekeeper.topology.functions import Push
from storekeeper.topology.node import GraphNode, TableNode
from storekeeper.topology.operators.repartition import RepartitionSink
from storekeeper.topology.records import Change, Forward, value_of
from storekeeper.topology.store import Store
from storekeeper.topology.table import Table, TableStore
from storekeeper.topology.wiring import Wiring

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

Selector = Callable[[Any, Any], tuple[Any, Any] | None]
"""Maps a row to its group's key and the value to aggregate; None for the row or either part leaves it out."""

_LENGTH = struct.Struct(">i")


class GroupTableSink(RepartitionSink):
    """Writes a table's changes under their groups' keys, old value and new."""

    def __init__(
        self, parent: GraphNode, keys: Serde[Any], values: Serde[Any], selector: Selector, *, named: str | None
    ) -> None:
        super().__init__(parent, keys, ChangeSerde(values), named=named, kind="group-by")
        self.replayable = False
        self._selector = selector

    def realise(self, wiring: Wiring) -> None:
        """Subscribes to the table above."""
        (push,) = self.wire(wiring)
        table = wiring.table(self.parents[0])
        table.enable_sending_old_values(force=True)
        selector = wiring.guarded(self, self._selector, _pair_or_none)
        table.subscribe(regrouping(selector, push, wiring.guarded(self, self.key_serde.serialize)))


class GroupedTableAggregate(TableNode):
    """A table of aggregates of a grouped table."""

    def __init__(
        self, parent: GraphNode, kind: str, aggregator: Aggregator[Any, Any, Any],
        serdes: tuple[Serde[Any], Serde[Any]], store: Store[Any] | None, *, named: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(parent.graph, kind, (parent,), named=named, copartitioned=True)
        self._aggregator = aggregator
        self.spec = self.add_rows(store, serdes)

    def require_rows(self) -> None:
        """It has a store."""

    def table(self, wiring: Wiring) -> TableAggregation[Any, Any, Any]:
        """The aggregation over its store."""
        known = self._aggregator
        aggregator: Aggregator[Any, Any, Any] = Aggregator(
            wiring.guarded(self, known.initialize),
            wiring.guarded(self, known.add),
            subtract=wiring.guarded(self, known.subtractor),
        )
        return TableAggregation(aggregator, wiring.rows(self.spec))

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Takes the changes of the group's rows."""
        table = wiring.table(self)
        assert isinstance(table, TableAggregation)  # noqa: S101 (for the type checker)
        return (table.on_change,)


class TableAggregation(Table[K, A], Generic[K, V, A]):
    """One aggregate for each key of a grouped table. The old value is subtracted before the new one is added.

    A row is stamped with the greatest timestamp of the changes in it, out-of-order ones included.
    """

    def __init__(self, aggregator: Aggregator[K, V, A], store: TableStore[K, A]) -> None:
        """Builds the table over its store.

        Raises:
            InvalidArgumentError: the aggregator can't subtract.
        """
        super().__init__()
        self._aggregator = aggregator
        self._subtract = aggregator.subtractor
        self._store = store

    def get(self, key: K) -> ValueAndTimestamp[A] | None:
        """The group's row as of now, or None."""
        return self._store.get(key)

    def on_change(self, key: K, change: Change[V], timestamp_ms: int) -> None:
        """Takes the next change of a row in the group `key`.

        Raises:
            NullKeyError: the group's key is None.
        """
        if key is None:
            raise NullKeyError("a group's key can't be None: let the selector return None to leave the row out")
        row = self._store.get(key)
        aggregate = self._replaced(key, change, value_of(row))
        newest_ms = timestamp_ms if row is None else max(timestamp_ms, row.timestamp_ms)
        old = value_of(row) if self._sends_old_values else None
        self._write(self._store, key, Change(aggregate, old), newest_ms)

    def _replaced(self, key: K, change: Change[V], aggregate: A | None) -> A | None:
        if change.old is not None and aggregate is not None:
            aggregate = self._subtract(key, change.old, aggregate)
        if change.new is None:
            return aggregate
        return self._aggregator.add(key, change.new, self._aggregator.initialize() if aggregate is None else aggregate)


def regrouping(selector: Selector, forward: Forward[Any, Any], key_bytes: Callable[[Any], bytes]) -> Forward[Any, Any]:
    """A function that takes a table's changes and forwards them under the keys of their groups.

    Groups are the same if their keys have the same bytes.
    """

    def select(key: Any, value: Any) -> tuple[Any, Any] | None:
        pair = None if value is None else selector(key, value)
        return None if pair is None or pair[0] is None or pair[1] is None else pair

    def regroup(key: Any, change: Change[Any], timestamp_ms: int) -> None:
        old, new = select(key, change.old), select(key, change.new)
        if old is not None and new is not None and key_bytes(old[0]) == key_bytes(new[0]):
            # One change, so that nobody sees the group without the row in between.
            forward(new[0], Change(new[1], old[1]), timestamp_ms)
            return
        if old is not None:
            forward(old[0], Change(None, old[1]), timestamp_ms)
        if new is not None:
            forward(new[0], Change(new[1]), timestamp_ms)

    return regroup


def _pair_or_none(pair: Any) -> tuple[Any, Any] | None:
    return None if pair is None else (pair[0], pair[1])


class ChangeSerde:
    """A change of a row: the length of the new value, or -1 for none, 4 bytes big-endian; the new value; then the old
    value with a 0x01 in front, or nothing.
    """

    def __init__(self, values: Serde[Any]) -> None:
        self._values = values

    def serialize(self, value: Change[Any]) -> bytes:
        """The change's bytes."""
        new = None if value.new is None else self._values.serialize(value.new)
        old = b"" if value.old is None else b"\x01" + self._values.serialize(value.old)
        return _LENGTH.pack(-1 if new is None else len(new)) + (new or b"") + old

    def deserialize(self, data: bytes) -> Change[Any]:
        """The change."""
        (length,) = _LENGTH.unpack_from(data)
        end = _LENGTH.size + max(length, 0)
        new = None if length < 0 else self._values.deserialize(data[_LENGTH.size : end])
        return Change(new, self._values.deserialize(data[end + 1 :]) if len(data) > end else None)
