"""Tables whose rows follow from those of the table above: filter and map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from storekeeper.serdes.serde import Serde
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.topology.node import TableNode
from storekeeper.topology.records import Change, value_of
from storekeeper.topology.store import Store
from storekeeper.topology.table import Table, TableStore
from storekeeper.topology.topology_store import TopologyStore
from storekeeper.topology.wiring import Wiring

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")


class DerivedTableNode(TableNode):
    """A table whose rows follow from those of the table above: materialized if it has a store."""

    def __init__(
        self, parent: TableNode, kind: str, mapper: Callable[[Any, Any], Any], serdes: tuple[Serde[Any], Serde[Any]],
        store: Store[Any] | None, *, filters: bool, named: str | None,
    ) -> None:  # fmt: skip
        super().__init__(parent.graph, kind, (parent,), named=named)
        self._mapper = mapper
        self._table = FilteredTable if filters else MappedTable
        self._spec = None if store is None else self.add_rows(store, serdes)
        if store is not None:
            parent.require_rows()

    @property
    def versioned(self) -> TopologyStore | None:
        """The versioned store above, unless it has rows of its own."""
        parent = self.parents[0]
        return parent.versioned if self._spec is None and isinstance(parent, TableNode) else None

    def require_rows(self) -> None:
        """Its own store serves, else the one above."""
        if self._spec is None:
            super().require_rows()

    def table(self, wiring: Wiring) -> Table[Any, Any]:
        """The derived table."""
        store = None if self._spec is None else wiring.rows(self._spec)
        mapper = wiring.guarded(self, self._mapper, bool if self._table is FilteredTable else None)
        table = self._table(wiring.table(self.parents[0]), mapper, store)
        if self._spec is not None:
            table.enable_sending_old_values(force=True)
        return table


class MappedTable(Table[K, W], Generic[K, V, W]):
    """The rows of a table with their values mapped one by one. Every change goes on, tombstones as tombstones.

    With a store it is materialized: it answers queries and has old values itself. Without, it asks the table
    above and maps again. A mapper's None means that the row doesn't exist here.
    """

    def __init__(self, parent: Table[K, V], mapper: Callable[[K, V], W | None], store: TableStore[K, W] | None) -> None:
        super().__init__()
        self._parent = parent
        self._map = mapper
        self._store = store
        parent.subscribe(self._on_change)

    def get(self, key: K) -> ValueAndTimestamp[W] | None:
        """The key's row as of now, or None."""
        return self._derived_row(key, self._parent.get(key)) if self._store is None else self._store.get(key)

    def get_as_of(self, key: K, timestamp_ms: int) -> ValueAndTimestamp[W] | None:
        """The row that was valid at a time, from the table above."""
        row = self._parent.get_as_of(key, timestamp_ms)
        return self._derived_row(key, row) if self._store is None else self._store.get(key)

    def is_expired(self, key: K) -> bool:
        """Whether the table above does not keep the key's window any more. Its own store keeps all rows."""
        return self._store is None and self._parent.is_expired(key)

    def forwarded(self, key: K) -> ValueAndTimestamp[W] | None:
        """The row that subscribers know: without a store it follows from the one that this table knows."""
        if self._store is None:
            return self._derived_row(key, self._parent.forwarded(key))
        return super().forwarded(key)

    def _derived_row(self, key: K, row: ValueAndTimestamp[V] | None) -> ValueAndTimestamp[W] | None:
        value = None if row is None else self._map(key, row.value)
        return None if row is None or value is None else ValueAndTimestamp(value, row.timestamp_ms)

    def enable_sending_old_values(self, *, force: bool = False) -> bool:
        """Makes changes carry old values: from this table's store, else from the table above."""
        if self._store is not None or self._parent.enable_sending_old_values(force=force):
            self._sends_old_values = True
        return self._sends_old_values

    def _derive_or_none(self, key: K, value: V | None) -> W | None:
        return None if value is None else self._map(key, value)

    def _old_value(self, key: K, change: Change[V]) -> W | None:
        if not self._sends_old_values:
            return None
        return self._derive_or_none(key, change.old) if self._store is None else value_of(self._store.get(key))

    def _on_change(self, key: K, change: Change[V], timestamp_ms: int) -> None:
        derived = Change(self._derive_or_none(key, change.new), self._old_value(key, change))
        if not self._is_superfluous(derived):
            self._write(self._store, key, derived, timestamp_ms)

    def _is_superfluous(self, change: Change[W]) -> bool:
        return False


class FilteredTable(MappedTable[K, V, V]):
    """The rows of a table that a predicate lets through.

    A row that stops matching becomes a tombstone, as downstream may hold it. A row that never matched needs none,
    and sends none where old values are known: whenever the table above has a store, or one was asked for
    with `enable_sending_old_values`. Else every row that doesn't match goes out as a tombstone, to be safe.
    """

    def __init__(self, parent: Table[K, V], predicate: Callable[[K, V], bool], store: TableStore[K, V] | None) -> None:
        super().__init__(parent, lambda key, value: value if predicate(key, value) else None, store)
        self._sends_old_values = parent.enable_sending_old_values()

    def _is_superfluous(self, change: Change[V]) -> bool:
        return self._sends_old_values and change.new is None and change.old is None
