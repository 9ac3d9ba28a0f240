"""The common part of aggregations over time windows: late records and rows."""

from __future__ import annotations

from typing import TypeVar

from state.serdes.timestamped import ValueAndTimestamp
from state.stores.windowed import Windowed
from state.tables.aggregator import Aggregator
from state.tables.change import Change, TableRecord, windowed
from state.tables.change_forwarder import ChangeForwarder
from state.tables.dropped_records import DropReason
from state.tables.emit_strategy import EmitStrategy
from state.tables.materialized import WindowRows
from state.tables.stream_aggregation import NOTHING_EMITTED_MS, StreamAggregation
from state.tables.stream_time import StreamTime
from state.tables.windows import FOREVER_MS, StartDeterminedWindows, Window

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class WindowedTable(StreamAggregation[K, V, A]):
    """A table of one aggregate for each key and time window, made from a stream of records.

    Records whose window is closed are left out and counted, too.

    A row is stamped with the greatest timestamp of the records in it: a late record doesn't lower it. So the newest
    row gives the last stream time, and a table over a restored store goes on from there.
    """

    def __init__(
        self,
        windows: StartDeterminedWindows,
        aggregator: Aggregator[K, V, A],
        store: WindowRows[K, A],
        *,
        emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
        stream_time: StreamTime | None = None,
        emitted_until_ms: int = NOTHING_EMITTED_MS,
    ) -> None:
        """Builds the table over its store.

        Args:
            windows: the windows that records fall into.
            aggregator: how values are folded.
            store: the rows. If it has a cache, its flushes forward the changes, unless they are emitted on close.
            emit: on every update, or once when a window closes.
            stream_time: how far the partition has come; None reads it from the rows, once.
            emitted_until_ms: the earlier instance's `emitted_until_ms`, after a restart: what it emitted isn't
                emitted again.
        """
        super().__init__(aggregator, emit=emit, stream_time=stream_time, emitted_until_ms=emitted_until_ms)
        self.windows = windows
        self._store = store
        if emit is EmitStrategy.ON_WINDOW_UPDATE:
            self._changes: ChangeForwarder[Windowed[K], A] = ChangeForwarder(
                store, self._forward, identity=lambda window: (window.key, window.start_ms)
            )
        if emit is EmitStrategy.ON_WINDOW_CLOSE or stream_time is None:
            self._read_rows()

    def get(self, key: Windowed[K]) -> ValueAndTimestamp[A] | None:
        """The window's row as of now, closed or not, or None."""
        return self._store.fetch_one(key.key, key.start_ms)

    def _closed_until(self, now_ms: int) -> int:
        return self.windows.starts_closed_by(now_ms)

    def _is_closed(self, window: Window) -> bool:
        return self.windows.closes_at_ms(window.end_ms) <= self.stream_time.now_ms

    def _add(
        self, key: K, value: V, timestamp_ms: int, window: Window, *, base: ValueAndTimestamp[A] | None, old: A | None
    ) -> None:
        """Writes the window's row: `base`, or a fresh aggregate, with the record in it. Drops it if closed."""
        if self._is_closed(window):
            self.dropped.drop(DropReason.EXPIRED_WINDOW)
            return
        aggregate = self._aggregator.initialize() if base is None else base.value
        newest_ms = timestamp_ms if base is None else max(base.timestamp_ms, timestamp_ms)
        added = self._aggregator.added(windowed(key, window), value, aggregate)
        self._put(key, window, added, newest_ms, old=old)

    def _put(self, key: K, window: Window, aggregate: A | None, timestamp_ms: int, *, old: A | None) -> None:
        row = None if aggregate is None else ValueAndTimestamp(aggregate, timestamp_ms)
        if self._emit is EmitStrategy.ON_WINDOW_CLOSE:
            self._closing.add(window.start_ms, windowed(key, window))
            self._store.put(key, row, window.start_ms)
            return
        change = Change(aggregate, old if self._sends_old_values else None)
        record = TableRecord(windowed(key, window), change, timestamp_ms)
        self._changes.announce(record)
        self._store.put(key, row, window.start_ms)
        self._changes.forward(record)

    def _read_rows(self) -> None:
        for key, row in self._store.fetch_all(0, FOREVER_MS):
            self.stream_time.observe(max(0, row.timestamp_ms))
            if self._emit is EmitStrategy.ON_WINDOW_CLOSE and key.start_ms > self._emitted_until_ms:
                self._closing.add(key.start_ms, windowed(key.key, self.windows.window_at(key.start_ms)))
