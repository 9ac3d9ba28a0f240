"""Aggregations: of streams by key and window, and of tables by group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from state.serdes.serde import Serde
from state.tables.aggregator import Adder, Aggregator, Merger
from state.tables.change import TableRecord
from state.tables.emit_strategy import EmitStrategy
from state.tables.grouped_table import TableAggregation
from state.tables.key_aggregation import KeyAggregation
from state.tables.session_aggregation import SessionAggregation
from state.tables.sliding_aggregation import SlidingWindowAggregation
from state.tables.stream_aggregation import StreamAggregation
from state.tables.table import KTable as TableRuntime
from state.tables.windowed_aggregation import WindowedAggregation
from state.tables.windows import FOREVER_MS, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from state.topology.functions import Push
from state.topology.node import Node, StoreSpec, TableNode, rows_spec
from state.topology.store import Store, StoreKind, milliseconds
from state.topology.wiring import Wiring

Windows = TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows


@dataclass(frozen=True, slots=True)
class Fold:
    """How the values of one or more streams become one aggregate.

    Attributes:
        initialize: makes the aggregate of no values.
        adders: `add(key, value, aggregate)`, one for each stream. In windows and sessions the key is the windowed key.
        merge: `merge(key, one, two)` for sessions.
    """

    initialize: Callable[[], Any]
    adders: Sequence[Adder[Any, Any, Any]]
    merge: Merger[Any, Any] | None = None


class StreamAggregate(TableNode):
    """A table of aggregates of one or more grouped streams."""

    def __init__(
        self, parents: Sequence[Node], kind: str, fold: Fold, serdes: tuple[Serde[Any], Serde[Any]],
        store: Store[Any] | None, *, windows: Windows | None = None, emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
        named: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(parents[0].graph, kind, parents, named=named, copartitioned=True)
        self._fold = fold
        self._emit = emit
        self.windows = windows
        self.spec = self.add_store(store, "store", lambda name, options: _store_spec(name, options, serdes, windows))

    def require_rows(self) -> None:
        """It has a store."""

    def table(self, wiring: Wiring) -> TableRuntime[Any, Any]:
        """The aggregation over its store."""
        if self.windows is None:
            return KeyAggregation(self._fold.initialize, wiring.rows(self.spec), wiring.dropped)

        # Each value comes with its stream's adder: several streams share the table.
        def add(key: Any, pair: Any, aggregate: Any) -> Any:
            return pair[0](key, pair[1], aggregate)

        aggregator: Aggregator[Any, Any, Any] = Aggregator(
            self._fold.initialize, add, self._fold.merge, add_in_window=add
        )
        table = self._windowed(aggregator, wiring)
        table.dropped = wiring.dropped
        if self._emit is EmitStrategy.ON_WINDOW_CLOSE:
            wiring.emitted[self.name] = lambda: table.emitted_until_ms
        return table

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """One entry for each stream."""
        table = wiring.table(self)
        if isinstance(table, KeyAggregation):
            return tuple(table.adding(add) for add in self._fold.adders)
        assert isinstance(table, StreamAggregation)  # noqa: S101 (for the type checker)
        return tuple(_with_adder(table, add) for add in self._fold.adders)

    def _windowed(self, aggregator: Aggregator[Any, Any, Any], wiring: Wiring) -> StreamAggregation[Any, Any, Any]:
        store: Any = wiring.typed(self.spec.name)
        rest: Any = {
            "emit": self._emit,
            "stream_time": wiring.stream_time(self.name),
            "emitted_until_ms": wiring.emitted_until(self.name),
        }
        match self.windows:
            case SessionWindows():
                return SessionAggregation(self.windows, aggregator, store, **rest)
            case SlidingWindows():
                return SlidingWindowAggregation(self.windows, aggregator, store, **rest)
            case _:
                assert self.windows is not None  # noqa: S101 (for the type checker)
                return WindowedAggregation(self.windows, aggregator, store, **rest)


class GroupedTableAggregate(TableNode):
    """A table of aggregates of a grouped table."""

    def __init__(
        self, parent: Node, kind: str, aggregator: Aggregator[Any, Any, Any], serdes: tuple[Serde[Any], Serde[Any]],
        store: Store[Any] | None, *, named: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(parent.graph, kind, (parent,), named=named, copartitioned=True)
        self._aggregator = aggregator
        self.spec = self.add_store(store, "store", lambda name, options: rows_spec(name, options, serdes))

    def require_rows(self) -> None:
        """It has a store."""

    def table(self, wiring: Wiring) -> TableRuntime[Any, Any]:
        """The aggregation over its store."""
        return TableAggregation(self._aggregator, wiring.rows(self.spec))

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Takes the changes of the group's rows."""
        table = wiring.table(self)
        assert isinstance(table, TableAggregation)  # noqa: S101 (for the type checker)
        take = table.on_change
        return (lambda key, change, timestamp_ms: take(TableRecord(key, change, timestamp_ms)),)


def _with_adder(table: StreamAggregation[Any, Any, Any], add: Adder[Any, Any, Any]) -> Push:
    process = table.process
    return lambda key, value, timestamp_ms: process(key, None if value is None else (add, value), timestamp_ms)


def _store_spec(
    name: str, options: Store[Any], serdes: tuple[Serde[Any], Serde[Any]], windows: Windows | None
) -> StoreSpec:
    if windows is None:
        return rows_spec(name, options, serdes)
    keys, values = options.key_serde or serdes[0], options.value_serde or serdes[1]
    if isinstance(windows, UnlimitedWindows):
        return StoreSpec(
            name, StoreKind.WINDOW, keys, values, options, FOREVER_MS // 2, FOREVER_MS // 2, timestamped=True
        )
    retention_ms = max(milliseconds(options.retention), windows.min_retention_ms)
    if isinstance(windows, SessionWindows):
        return StoreSpec(name, StoreKind.SESSION, keys, values, options, retention_ms)
    size_ms = max(1, windows.time_difference_ms) if isinstance(windows, SlidingWindows) else windows.size_ms
    return StoreSpec(name, StoreKind.WINDOW, keys, values, options, retention_ms, size_ms, timestamped=True)
