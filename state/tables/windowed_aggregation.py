"""Aggregation over tumbling, hopping and unlimited windows."""

from __future__ import annotations

from typing import Generic, TypeVar

from state.errors import ConfigurationError
from state.tables.aggregator import Aggregator
from state.tables.change import value_of
from state.tables.emit_strategy import EmitStrategy
from state.tables.materialized import WindowRows
from state.tables.stream_aggregation import NOTHING_EMITTED_MS
from state.tables.stream_time import StreamTime
from state.tables.windowed_table import WindowedTable
from state.tables.windows import EnumerableWindows, UnlimitedWindows

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class WindowedAggregation(WindowedTable[K, V, A], Generic[K, V, A]):
    """One aggregate for each key and aligned window.

    A record may be late for one of its hopping windows and in time for the next; each miss is counted.
    """

    def __init__(
        self,
        windows: EnumerableWindows,
        aggregator: Aggregator[K, V, A],
        store: WindowRows[K, A],
        *,
        emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
        stream_time: StreamTime | None = None,
        emitted_until_ms: int = NOTHING_EMITTED_MS,
    ) -> None:
        """Builds the table; the arguments are those of `WindowedTable`.

        Raises:
            ConfigurationError: emission on close of windows that never close.
        """
        if emit is EmitStrategy.ON_WINDOW_CLOSE and isinstance(windows, UnlimitedWindows):
            raise ConfigurationError("an unlimited window never closes: emit on update, or choose windows that end")
        super().__init__(
            windows, aggregator, store, emit=emit, stream_time=stream_time, emitted_until_ms=emitted_until_ms
        )
        self._windows_for = windows.windows_for

    def _aggregate(self, key: K, value: V, timestamp_ms: int) -> None:
        for window in self._windows_for(timestamp_ms):
            row = self._store.fetch_one(key, window.start_ms)
            self._add(key, value, timestamp_ms, window, base=row, old=value_of(row))
