"""Where records enter a sub-topology: topics, and tables read from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from state.serdes.serde import Serde
from state.tables.table import KTable as TableRuntime
from state.tables.table import SourceTable
from state.tables.versioned_table import VersionedTable
from state.topology.functions import Check, Push, TimestampExtractor
from state.topology.node import Graph, Node, StoreSpec, TableNode, rows_spec
from state.topology.store import Store, StoreKind, milliseconds
from state.topology.wiring import Wiring


class Source(Node):
    """A topic that is read: one of the user's, or a repartition topic."""

    def __init__(
        self, graph: Graph, topic: str, keys: Serde[Any], values: Serde[Any], *, check: Check[Any, Any] | None = None,
        timestamps: TimestampExtractor[Any, Any] | None = None, named: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(graph, topic, named=named, replayable=True)
        self.topic = topic
        self.key_serde = keys
        self.value_serde = values
        self.check = check
        self.timestamps = timestamps

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Its records go on as they are."""
        return (wiring.forward(self),)


class GlobalSource(Source):
    """A topic that every task has whole, as a table."""

    def __init__(
        self, graph: Graph, topic: str, keys: Serde[Any], values: Serde[Any], store: Store[Any] | None
    ) -> None:
        super().__init__(graph, topic, keys, values)
        self.spec = self.add_store(
            store,
            "store",
            lambda name, options: rows_spec(name, options, (keys, values)),
        )

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """The records of the topic are the rows of the table."""
        return (SourceTable(wiring.rows(self.spec), wiring.dropped).upsert,)


class TableSource(TableNode):
    """A stream read as a table: the newest value of each key."""

    def __init__(
        self, parent: Node, serdes: tuple[Serde[Any], Serde[Any]], store: Store[Any] | None, *, named: str | None = None
    ) -> None:
        super().__init__(parent.graph, "table", (parent,), named=named, copartitioned=True)
        self._serdes = serdes
        self._options = store
        self._spec: StoreSpec | None = None
        if store is not None:
            self.require_rows()

    def require_rows(self) -> None:
        """Gives the table a store."""
        if self._spec is None:
            self._spec = self.add_store(self._options, "store", self._store_spec)

    @property
    def versioned(self) -> StoreSpec | None:
        """Its store, if that is versioned."""
        return self._spec if self._spec is not None and self._spec.kind is StoreKind.VERSIONED else None

    def table(self, wiring: Wiring) -> TableRuntime[Any, Any]:
        """A table over the store, or one that only passes changes on."""
        if self._spec is None:
            return SourceTable(None, wiring.dropped)
        if self._spec.kind is StoreKind.VERSIONED:
            return VersionedTable(wiring.typed(self._spec.name), wiring.dropped)
        return SourceTable(wiring.rows(self._spec), wiring.dropped)

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Each record is an upsert, or a tombstone."""
        table = wiring.table(self)
        assert isinstance(table, SourceTable | VersionedTable)  # noqa: S101 (for the type checker)
        return (table.upsert,)

    def _store_spec(self, name: str, options: Store[Any]) -> StoreSpec:
        rows = rows_spec(name, options, self._serdes)
        if options.history is None:
            return rows
        return replace(rows, kind=StoreKind.VERSIONED, retention_ms=milliseconds(options.history), timestamped=False)
