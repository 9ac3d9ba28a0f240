"""Where records enter a sub-topology: topics, and tables read from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from storekeeper.errors import ConfigurationError
from storekeeper.serdes.round_trip import as_read_from
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import key_serde
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.versioned import NOT_PUT_MS, VALID_TO_UNDEFINED_MS, VersionedKeyValueStore
from storekeeper.topology.dropped_records import DroppedRecords, DropReason
from storekeeper.topology.functions import Check, Push, TimestampExtractor
from storekeeper.topology.node import Graph, GraphNode, TableNode, ancestors
from storekeeper.topology.records import Change, value_of
from storekeeper.topology.store import Store, StoreBackend, StoreKind, milliseconds
from storekeeper.topology.table import Table, TableStore
from storekeeper.topology.topology_store import TopologyStore, rows_spec
from storekeeper.topology.version_cells import VersionCells
from storekeeper.topology.wiring import Wiring

K = TypeVar("K")
V = TypeVar("V")


class Source(GraphNode):
    """A topic that is read: one of the user's, or a repartition topic.

    Attributes:
        type_has_no_null: whether a function gets its values as they are, and their type has no null.
    """

    def __init__(
        self, graph: Graph, topic: str, keys: Serde[Any], values: Serde[Any], *, check: Check[Any, Any] | None = None,
        timestamps: TimestampExtractor[Any, Any] | None = None, named: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(graph, topic, named=named, replayable=True)
        self.topic = topic
        self.key_serde = key_serde(keys)
        self.value_serde = values
        self.check = check
        self.timestamps = timestamps
        self.type_has_no_null = False

    @property
    def refuses_nulls(self) -> bool:
        """Whether a record with a null value is a dead letter, as a function would get it whose type has no null.

        Where a table is made of the same records, it deletes a row there: so it is none.
        """
        return self.type_has_no_null and not any(isinstance(child, TableSource) for child, _ in self.children)

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Its records go on as they are."""
        return (wiring.forward(self),)


class GlobalSource(Source):
    """A topic that every task has whole, as a table."""

    def __init__(
        self, graph: Graph, topic: str, keys: Serde[Any], values: Serde[Any], store: Store[Any] | None
    ) -> None:
        super().__init__(graph, topic, keys, values)
        self.spec = self.add_rows(store, (keys, values))
        if self.spec.options.backend != StoreBackend.ROCKSDB:
            msg = f"store {self.spec.name}: each worker keeps a global table in RocksDB: leave backend= out"
            raise ConfigurationError(msg)

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """The records of the topic are the rows of the table."""
        return (SourceTable(wiring.rows(self.spec), wiring.dropped).upsert,)


class TableSource(TableNode):
    """A stream read as a table: the newest value of each key."""

    def __init__(
        self,
        parent: GraphNode,
        serdes: tuple[Serde[Any], Serde[Any]],
        store: Store[Any] | None,
        *,
        named: str | None = None,
    ) -> None:
        super().__init__(parent.graph, "table", (parent,), named=named, copartitioned=True)
        self._serdes = serdes
        self._options = store
        self._spec: TopologyStore | None = None
        if store is not None:
            self.require_rows()

    def require_rows(self) -> None:
        """Gives the table a store."""
        if self._spec is None:
            self._spec = self.add_store(self._options, "store", self._store_spec)

    @property
    def versioned(self) -> TopologyStore | None:
        """Its store, if that is versioned."""
        return self._spec if self._spec is not None and self._spec.kind is StoreKind.VERSIONED else None

    def table(self, wiring: Wiring) -> Table[Any, Any]:
        """A table over the store, or one that only passes changes on."""
        if self._spec is None:
            return SourceTable(None, wiring.dropped)
        if self._spec.kind is StoreKind.VERSIONED:
            as_read = wiring.guarded(self, as_read_from(f"store {self._spec.name}", self._spec.value_serde))
            return VersionedTable(wiring.cells(self._spec), wiring.dropped, as_read)
        return SourceTable(wiring.rows(self._spec), wiring.dropped)

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Each record is an upsert, or a tombstone."""
        table = wiring.table(self)
        assert isinstance(table, SourceTable | VersionedTable)  # noqa: S101 (for the type checker)
        return (table.upsert,)

    def _store_spec(self, name: str, options: Store[Any]) -> TopologyStore:
        rows = rows_spec(name, options, self._serdes)
        if options.history is None:
            return rows
        return replace(
            rows, kind=StoreKind.VERSIONED, retention_ms=milliseconds(options.history, "history"), timestamped=False
        )


def refuse_nulls(node: GraphNode) -> None:
    """Lets the sources of a stream whose values are as they were read refuse records without a value."""
    for above in ancestors(node):
        if isinstance(above, Source):
            above.type_has_no_null = True


class SourceTable(Table[K, V]):
    """A table read from a log of upserts and tombstones.

    Without a store it only passes changes on: it can't be queried and has no old values. Records with a null key
    are counted and left out.
    """

    def __init__(self, store: TableStore[K, V] | None, dropped: DroppedRecords) -> None:
        super().__init__()
        self._store = store
        self.dropped = dropped

    def upsert(self, key: K | None, value: V | None, timestamp_ms: int) -> None:
        """Takes the log's next record: replaces the key's row, or deletes it if `value` is None."""
        if key is None:
            self.dropped.drop(DropReason.NULL_KEY)
            return
        old = self._store.get(key) if self._store is not None and self._sends_old_values else None
        self._write(self._store, key, Change(value, value_of(old)), timestamp_ms)

    def get(self, key: K) -> ValueAndTimestamp[V] | None:
        """The key's row as of now, or None."""
        return self._required_store().get(key)

    def looking_up(self) -> Callable[[K], V | None]:
        """What gives the value of a key's row as of now."""
        return self._required_store().value

    def enable_sending_old_values(self, *, force: bool = False) -> bool:
        """Makes changes carry old values if there is a store."""
        if force:
            self._required_store()
        self._sends_old_values = self._store is not None
        return self._sends_old_values

    def _required_store(self) -> TableStore[K, V]:
        if self._store is None:
            raise ConfigurationError(
                "this table has no store to look rows up in: give its source, or a table on the way, one"
            )
        return self._store


class VersionedTable(Table[K, V]):
    """A table read from a log of upserts and tombstones, ordered by their timestamps.

    A record that is older than its key's newest value changes only the history: nothing goes downstream. One that is
    older than the history is left out and counted.
    """

    def __init__(
        self,
        store: VersionedKeyValueStore[K, V] | VersionCells,
        dropped: DroppedRecords,
        as_read: Callable[[Any, V | None], V | None] = lambda _, value: value,
    ) -> None:
        super().__init__()
        self._store = store
        self._as_read = as_read
        self.dropped = dropped

    def upsert(self, key: K | None, value: V | None, timestamp_ms: int) -> None:
        """Takes the log's next record. A None value means that the key was deleted at that time."""
        if key is None:
            self.dropped.drop(DropReason.NULL_KEY)
            return
        value = self._as_read(key, value)
        old = self._store.get(key) if self._sends_old_values else None
        valid_to_ms = self._store.put(key, value, timestamp_ms)
        if valid_to_ms == NOT_PUT_MS:
            self.dropped.drop(DropReason.EXPIRED_WINDOW)
        elif valid_to_ms == VALID_TO_UNDEFINED_MS:
            self._forward(key, Change(value, None if old is None else old.value), timestamp_ms)

    def get(self, key: K) -> ValueAndTimestamp[V] | None:
        """The key's newest row, or None."""
        row = self._store.get(key)
        return None if row is None else ValueAndTimestamp(row.value, row.timestamp_ms)

    def get_as_of(self, key: K, timestamp_ms: int) -> ValueAndTimestamp[V] | None:
        """The row that was valid at a time, or None if there was none, or if history does not go back so far."""
        row = self._store.get(key, timestamp_ms)
        return None if row is None else ValueAndTimestamp(row.value, row.timestamp_ms)
