"""Aggregations of one or more streams by key, or by key and window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from storekeeper.errors import ConfigurationError
from storekeeper.serdes.round_trip import as_read_from, round_trip
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.aggregator import Aggregator
from storekeeper.topology.dropped_records import DroppedRecords, DropReason
from storekeeper.topology.functions import Push, WithKey, WithWindow, unmarked
from storekeeper.topology.node import GraphNode, TableNode
from storekeeper.topology.operators.session_aggregation import SessionAggregation
from storekeeper.topology.operators.sliding_aggregation import SlidingWindowAggregation
from storekeeper.topology.operators.windowed_aggregation import First, StreamAggregation, WindowedAggregation
from storekeeper.topology.records import Change
from storekeeper.topology.store import Store, StoreKind, milliseconds
from storekeeper.topology.table import Table
from storekeeper.topology.task_stores import TableRows
from storekeeper.topology.topology_store import TopologyStore, check_store, rows_spec
from storekeeper.topology.windows import (
    FOREVER_MS,
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    UnlimitedWindows,
    Windows,
)
from storekeeper.topology.wiring import Wiring, encoder

K = TypeVar("K")
A = TypeVar("A")


class StreamAggregate(TableNode):
    """A table of aggregates of one or more grouped streams."""

    def __init__(
        self, parents: Sequence[GraphNode], kind: str, aggregator: Aggregator[Any, Any, Any],
        serdes: tuple[Serde[Any], Serde[Any]], store: Store[Any] | None,
        *, adders: Sequence[Any], windows: Windows | None, emit: EmitStrategy, named: str | None,
    ) -> None:  # fmt: skip
        """Adds the operator.

        Args:
            parents: the streams.
            kind: what it is called.
            aggregator: how an aggregate begins and how sessions are merged.
            serdes: of keys and aggregates.
            store: the options of its store.
            adders: `add(aggregate, value)`, one for each stream, or one that is marked to take more.
            windows: None for one aggregate a key.
            emit: on every update, or once when a window closes.
            named: the operator's name.

        Raises:
            ConfigurationError: emission on close of windows that never close.
        """
        if emit is EmitStrategy.ON_WINDOW_CLOSE and isinstance(windows, UnlimitedWindows):
            raise ConfigurationError("an unlimited window never closes: emit on update, or choose windows that end")
        super().__init__(parents[0].graph, kind, parents, named=named, copartitioned=True)
        self._aggregator = aggregator
        self._adders = adders
        self._emit = emit
        self.windows = windows
        self.spec = self.add_store(store, "store", lambda name, options: _store_spec(name, options, serdes, windows))
        self._kept_with: dict[StreamAggregate, None] = {}

    def require_rows(self) -> None:
        """It has a store."""

    def keep_with(self, others: Iterable[StreamAggregate]) -> None:
        """Keeps rows of windows until the windows of other tables, which are joined with them, are closed, too."""
        self._kept_with |= dict.fromkeys(others)
        least_ms = max(node.spec.retention_ms for node in (self, *self._kept_with))
        if self.spec.retention_ms < least_ms:
            kept = replace(self.spec, retention_ms=least_ms)
            self.stores[self.stores.index(self.spec)] = self.spec = kept

    def table(self, wiring: Wiring) -> Table[Any, Any]:
        """The aggregation over its store."""
        if self.windows is None:
            initialize = wiring.guarded(self, self._aggregator.initialize)
            return KeyAggregation(initialize, wiring.rows(self.spec), wiring.dropped)
        aggregator: Aggregator[Any, Any, Any] = Aggregator(
            wiring.guarded(self, self._aggregator.initialize),
            self._aggregator.add,
            None if self._aggregator.merge is None else wiring.guarded(self, self._aggregator.merge),
        )
        table = self._windowed(self.windows, aggregator, wiring)
        stores = [wiring.typed(node.spec.name) for node in (self, *self._kept_with)]
        stores[0].stream_time.partners = tuple(store.stream_time for store in stores[1:])
        if self._emit is EmitStrategy.ON_WINDOW_CLOSE:
            encode = encoder(self.spec.key_serde, self.spec.value_serde)
            table.release_by(partial(wiring.guards.releasing, self.name, encode=encode))
            wiring.emitted[self.name] = lambda: table.emitted_until_ms
        return table

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """One entry for each stream."""
        table = wiring.table(self)
        if isinstance(table, KeyAggregation):
            return tuple(
                table.adding(wiring.guarded(self, unmarked(add)), takes_key=isinstance(add, WithKey))
                for add in self._adders
            )
        assert isinstance(table, StreamAggregation)  # noqa: S101 (for the type checker)
        return tuple(table.adding(wiring.guarded(self, unmarked(add)), _first_of(add)) for add in self._adders)

    def _windowed(
        self, windows: Windows, aggregator: Aggregator[Any, Any, Any], wiring: Wiring
    ) -> StreamAggregation[Any, Any, Any]:
        kinds: dict[type, type[StreamAggregation[Any, Any, Any]]] = {
            SessionWindows: SessionAggregation,
            SlidingWindows: SlidingWindowAggregation,
        }
        spec, kind = self.spec, kinds.get(type(windows), WindowedAggregation)
        rows = wiring.typed(spec.name) if kind is SlidingWindowAggregation else wiring.cells(spec)
        as_read = wiring.guarded(self, as_read_from(f"store {spec.name}", spec.value_serde))
        return kind(
            windows, aggregator, rows, wiring.dropped, wiring.stream_time(self.name),
            context=wiring.context, as_read=as_read, is_plain=round_trip(spec.value_serde).is_plain,
            key_bytes=wiring.guarded(self, spec.key_serde.serialize),
            emit=self._emit, emitted_until_ms=wiring.emitted_until(self.name), undo=wiring.undo,
        )  # fmt: skip


class KeyAggregation(Table[K, A]):
    """A table of one aggregate for each key. Records without key or value are left out and counted.

    A row is stamped with the greatest timestamp of the records in it.
    """

    def __init__(self, initialize: Callable[[], A], store: TableRows[A], dropped: DroppedRecords) -> None:
        super().__init__()
        self._initialize = initialize
        self._store = store
        self._dropped = dropped

    def get(self, key: K) -> ValueAndTimestamp[A] | None:
        """The key's row as of now, or None."""
        return self._store.get(key)

    def looking_up(self) -> Callable[[K], A | None]:
        """What gives the value of a key's row as of now."""
        return self._store.value

    def adding(self, add: Callable[..., A | None], *, takes_key: bool) -> Push:
        """A function that takes the records of one stream. Streams with adders of their own share the table."""
        cell_of, write, initialize, drop = self._store.cell, self._store.write, self._initialize, self._dropped.drop
        downstream = self._downstream

        def process(key: K | None, value: Any, timestamp_ms: int) -> None:
            if value is None or key is None:
                drop(DropReason.NULL_VALUE if key is not None else DropReason.NULL_KEY)
                return
            cell = cell_of(key)
            old = cell.value
            base = initialize() if old is None else old
            new = add(key, base, value) if takes_key else add(base, value)
            if old is not None and cell.timestamp_ms > timestamp_ms:
                timestamp_ms = cell.timestamp_ms
            new = write(cell, new, timestamp_ms)
            if downstream:
                change = Change(new, old if self._sends_old_values else None)
                for forward in downstream:
                    forward(key, change, timestamp_ms)

        return process


def _first_of(adder: object) -> First | None:
    if isinstance(adder, WithWindow):
        return Windowed
    return (lambda key, _start_ms, _end_ms: key) if isinstance(adder, WithKey) else None


def _store_spec(
    name: str, options: Store[Any], serdes: tuple[Serde[Any], Serde[Any]], windows: Windows | None
) -> TopologyStore:
    if windows is None:
        return rows_spec(name, options, serdes)
    check_store(name, options, serdes)
    keys, values = options.key_serde or serdes[0], options.value_serde or serdes[1]
    if isinstance(windows, UnlimitedWindows):
        return TopologyStore(
            name, StoreKind.WINDOW, keys, values, options, FOREVER_MS // 2, FOREVER_MS // 2, timestamped=True
        )
    retention_ms = max(milliseconds(options.retention, "retention"), windows.min_retention_ms)
    if isinstance(windows, SessionWindows):
        return TopologyStore(name, StoreKind.SESSION, keys, values, options, retention_ms)
    size_ms = max(1, windows.time_difference_ms) if isinstance(windows, SlidingWindows) else windows.size_ms
    return TopologyStore(name, StoreKind.WINDOW, keys, values, options, retention_ms, size_ms, timestamped=True)
