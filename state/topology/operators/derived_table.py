"""Tables whose rows follow from those of the table above: filter and map."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from state.serdes.serde import Serde
from state.serdes.timestamped import ValueAndTimestamp
from state.topology.change import Change, value_of
from state.topology.node import TableNode, TopologyStore, rows_spec
from state.topology.store import Store
from state.topology.table import Table, TableStore
from state.topology.wiring import Wiring

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")

Derive = Callable[[Table[Any, Any], TableStore[Any, Any] | None], Table[Any, Any]]
"""Builds the derived table of one task, over its store if it has one."""


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


class DerivedTable(Table[K, W], Generic[K, V, W]):
    """A table whose every row follows from the same key's row in the table above.

    With a store it is materialized: it answers queries and has old values itself. Without, it asks the table
    above and derives again.
    """

    def __init__(self, parent: Table[K, V], store: TableStore[K, W] | None) -> None:
        super().__init__()
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


class FilteredTable(DerivedTable[K, V, V]):
    """The rows of a table that a predicate lets through.

    A row that stops matching becomes a tombstone, as downstream may hold it. A row that never matched needs none,
    and sends none where old values are known: whenever the table above has a store, or one was asked for
    with `enable_sending_old_values`. Else every row that doesn't match goes out as a tombstone, to be safe.
    """

    def __init__(self, parent: Table[K, V], predicate: Callable[[K, V], bool], store: TableStore[K, V] | None) -> None:
        super().__init__(parent, store)
        self._predicate = predicate
        self._sends_old_values = parent.enable_sending_old_values()

    def _derive(self, key: K, value: V) -> V | None:
        return value if self._predicate(key, value) else None

    def _is_superfluous(self, change: Change[V]) -> bool:
        return self._sends_old_values and change.new is None and change.old is None


class MappedTable(DerivedTable[K, V, W]):
    """The rows of a table with their values mapped one by one. Every change goes on, tombstones as tombstones."""

    def __init__(self, parent: Table[K, V], mapper: Callable[[K, V], W | None], store: TableStore[K, W] | None) -> None:
        super().__init__(parent, store)
        self._mapper = mapper

    def _derive(self, key: K, value: V) -> W | None:
        return self._mapper(key, value)
