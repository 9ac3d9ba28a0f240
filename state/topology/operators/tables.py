"""Operators on tables: filter, map, suppress, joins by key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from state.serdes.serde import BytesSerde, Serde
from state.serdes.timestamped import ValueAndTimestamp
from state.stores.windowed import Windowed
from state.tables.change import Change, TableRecord
from state.tables.joined_table import JoinedTable
from state.tables.materialized import TableStore
from state.tables.suppress import Suppressed, SuppressedTable
from state.tables.table import FilteredTable, MappedTable
from state.tables.table import KTable as TableRuntime
from state.tables.time_ordered_buffer import Buffered, windowed_key_bytes
from state.tables.windows import FOREVER_MS
from state.topology.node import StoreSpec, TableNode, rows_spec
from state.topology.operators.repartition import ChangeSerde
from state.topology.store import Store, StoreKind
from state.topology.wiring import Wiring

Derive = Callable[[TableRuntime[Any, Any], TableStore[Any, Any] | None], TableRuntime[Any, Any]]


class DerivedTableNode(TableNode):
    """A table whose rows follow from those of the table above: materialized if it has a store."""

    def __init__(
        self, parent: TableNode, kind: str, derive: Derive, serdes: tuple[Serde[Any], Serde[Any]],
        store: Store[Any] | None, *, named: str | None,
    ) -> None:  # fmt: skip
        super().__init__(parent.graph, kind, (parent,), named=named)
        self._derive = derive
        self._spec = None if store is None else self.add_store(
            store, "store", lambda name, options: rows_spec(name, options, serdes))  # fmt: skip
        if store is not None:
            parent.require_rows()

    @property
    def versioned(self) -> StoreSpec | None:
        """The versioned store above, unless it has rows of its own."""
        parent = self.parents[0]
        return parent.versioned if self._spec is None and isinstance(parent, TableNode) else None

    def require_rows(self) -> None:
        """Its own store serves, else the one above."""
        if self._spec is None:
            super().require_rows()

    def table(self, wiring: Wiring) -> TableRuntime[Any, Any]:
        """The derived table."""
        parent = wiring.table(self.parents[0])
        table = self._derive(parent, None if self._spec is None else wiring.rows(self._spec))
        if self._spec is not None:
            table.enable_sending_old_values(force=True)
        return table


def filtered(predicate: Callable[[Any, Any], bool]) -> Derive:
    """The rows that a predicate lets through."""
    return lambda parent, store: FilteredTable(parent, predicate, store)


def mapped(mapper: Callable[[Any, Any], Any]) -> Derive:
    """The rows with their values mapped."""
    return lambda parent, store: MappedTable(parent, mapper, store)


class TableJoin(TableNode):
    """Two tables joined by their common key."""

    def __init__(
        self, left: TableNode, right: TableNode, kind: str, joiner: Callable[[Any, Any, Any], Any],
        *, serdes: tuple[Serde[Any], Serde[Any]], store: Store[Any] | None, left_alone: bool, right_alone: bool,
        named: str | None,
    ) -> None:  # fmt: skip
        super().__init__(left.graph, kind, (left, right), named=named, copartitioned=True)
        self._spec = None if store is None else self.add_store(
            store, "store", lambda name, options: rows_spec(name, options, serdes))  # fmt: skip
        self._joiner = joiner
        self._alone = {"left_alone": left_alone, "right_alone": right_alone}
        left.require_rows()
        right.require_rows()

    def table(self, wiring: Wiring) -> TableRuntime[Any, Any]:
        """The joined table."""
        left, right = (wiring.table(parent) for parent in self.parents)
        store = None if self._spec is None else wiring.rows(self._spec)
        return JoinedTable(left, right, self._joiner, **self._alone, store=store)


class Suppress(TableNode):
    """A table whose changes are held back. What waits is in a store of its own."""

    def __init__(
        self, parent: TableNode, suppressed: Suppressed[Any], serdes: tuple[Serde[Any], Serde[Any]],
        *, windowed: bool, named: str | None,
    ) -> None:  # fmt: skip
        super().__init__(parent.graph, "suppress", (parent,), named=named)
        self._suppressed = suppressed
        self._keys, self._values = serdes
        self._windowed = windowed
        parent.require_rows()
        keys, waiting = BytesSerde(), WaitingSerde(self._keys, self._values, windowed=windowed)
        self._spec = self.add_store(
            None, "buffer", lambda name, options: StoreSpec(name, StoreKind.KEY_VALUE, keys, waiting,
                                                            options, timestamped=True, internal=True))  # fmt: skip

    def table(self, wiring: Wiring) -> TableRuntime[Any, Any]:
        """The table over its buffer, which has what waited when the task ended."""
        encode = self._keys.serialize
        key_bytes: Callable[[Any], bytes] = windowed_key_bytes(encode) if self._windowed else encode
        rows = wiring.rows(self._spec)
        table: SuppressedTable[Any, Any] = SuppressedTable(
            wiring.table(self.parents[0]), self._suppressed, key_bytes=key_bytes, value_bytes=self._values.serialize,
            stream_time=wiring.stream_time(self.name),
        )  # fmt: skip
        for _, row in rows.all():
            table.buffer.put(row.value.due_ms, row.value.record)
        table.buffer.touched.clear()

        def save() -> None:
            for key, waiting in table.buffer.take_touched().items():
                rows.put(key, None if waiting is None else ValueAndTimestamp(waiting, waiting.record.timestamp_ms))

        wiring.batch_ends.append(save)
        return table


class WaitingSerde:
    """A change that waits: due time, timestamp, start and end of the window (0 without one), 8 bytes big-endian each;
    length of the key, 4 bytes; the key; the change.
    """

    def __init__(self, keys: Serde[Any], values: Serde[Any], *, windowed: bool) -> None:
        self._keys = keys
        self._changes = ChangeSerde(values)
        self._windowed = windowed

    def serialize(self, value: Buffered[Any, Any]) -> bytes:
        """The change's bytes."""
        record = value.record
        key, start_ms, end_ms = record.key if self._windowed else (record.key, 0, 0)
        data = self._keys.serialize(key)
        times = (min(value.due_ms, FOREVER_MS), record.timestamp_ms, start_ms, end_ms)
        head = b"".join(time.to_bytes(8, "big", signed=True) for time in times)
        return head + len(data).to_bytes(4, "big") + data + self._changes.serialize(record.change)

    def deserialize(self, data: bytes) -> Buffered[Any, Any]:
        """The change."""
        due_ms, timestamp_ms, start_ms, end_ms = (
            int.from_bytes(data[at : at + 8], "big", signed=True) for at in range(0, 32, 8)
        )
        end = 36 + int.from_bytes(data[32:36], "big")
        key = self._keys.deserialize(data[36:end])
        change: Change[Any] = self._changes.deserialize(data[end:])
        return Buffered(
            due_ms, TableRecord(Windowed(key, start_ms, end_ms) if self._windowed else key, change, timestamp_ms)
        )
