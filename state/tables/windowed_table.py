"""What aggregations over time windows share: late records, rows, and emission on update or on close."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, Protocol, TypeVar

from state.serdes.timestamped import ValueAndTimestamp
from state.stores.read_only import Windowed
from state.tables.aggregator import Aggregator
from state.tables.change import Change, TableRecord, windowed
from state.tables.dropped_records import DroppedRecords, DropReason
from state.tables.emit_strategy import EmitStrategy
from state.tables.materialized import WindowRows
from state.tables.stream_time import StreamTime
from state.tables.table import KTable
from state.tables.windows import Window, WindowDefinition

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

NOTHING_EMITTED_MS = -1
"""`emitted_until_ms` before the first emission on close."""


class StartDeterminedWindows(WindowDefinition, Protocol):
    """A definition whose windows follow from their starts: what a window store, which keeps only starts, can hold."""

    def window_at(self, start_ms: int) -> Window:
        """The one window that starts at `start_ms`."""
        ...

    def starts_closed_by(self, stream_time_ms: int) -> int:
        """The latest start, inclusive, whose window is closed at `stream_time_ms`; negative if none can be."""
        ...


class WindowedTable(KTable[Windowed[K], A], Generic[K, V, A]):
    """A table of one aggregate for each key and time window, made from a stream of records.

    Records are left out, and counted, if their key or value is null or their window is closed. A record advances
    stream time before it is judged, so one that comes far ahead closes the windows behind it.

    A row is stamped with the greatest timestamp of the records in it: a late record doesn't lower it.
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
            store: the rows. If it caches, flushing it forwards the changes; see `typed_stores`.
            emit: on every update, or once when a window closes.
            stream_time: how far the partition had come, after a restore.
            emitted_until_ms: the earlier instance's `emitted_until_ms`, after a restart: what it emitted isn't
                emitted again.
        """
        super().__init__()
        self.windows = windows
        self.dropped = DroppedRecords()
        self.stream_time = stream_time if stream_time is not None else StreamTime()
        self._aggregator = aggregator
        self._store = store
        self._emit = emit
        self._emitted_until_ms = emitted_until_ms

    @property
    def emitted_until_ms(self) -> int:
        """The latest start, inclusive, of windows emitted on close. Keep it beside the rows, and start from it."""
        return self._emitted_until_ms

    def process(self, key: K | None, value: V | None, timestamp_ms: int) -> None:
        """Takes the stream's next record.

        Raises:
            InvalidTimestampError: the timestamp is negative. Nothing was changed.
        """
        if key is None:
            self.dropped.drop(DropReason.NULL_KEY)
            return
        if value is None:
            self.dropped.drop(DropReason.NULL_VALUE)
            return
        now_ms = self.stream_time.observe(timestamp_ms)
        self._aggregate(key, value, timestamp_ms)
        if self._emit is EmitStrategy.ON_WINDOW_CLOSE:
            self._emit_closed(now_ms)

    def get(self, key: Windowed[K]) -> ValueAndTimestamp[A] | None:
        """The window's row as of now, closed or not, or None."""
        return self._store.fetch_one(key.key, key.start_ms)

    def enable_sending_old_values(self, *, force: bool = False) -> bool:
        """Makes changes carry old values; the store knows them."""
        self._sends_old_values = True
        return True

    @abstractmethod
    def _aggregate(self, key: K, value: V, timestamp_ms: int) -> None:
        """Brings the record into all windows that it belongs to."""

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
        row = ValueAndTimestamp(self._aggregator.add(key, value, aggregate), newest_ms)
        self._put(key, window, row, old=old)

    def _put(self, key: K, window: Window, row: ValueAndTimestamp[A], *, old: A | None) -> None:
        self._store.put(key, row, window.start_ms)
        if self._emit is EmitStrategy.ON_WINDOW_UPDATE:
            change = Change(row.value, old if self._sends_old_values else None)
            self._forward(TableRecord(windowed(key, window), change, row.timestamp_ms))

    def _emit_closed(self, now_ms: int) -> None:
        until_ms = self.windows.starts_closed_by(now_ms)
        if until_ms <= self._emitted_until_ms:
            return
        # In the order of time whatever the store's own order is, so that results don't depend on the backend.
        closed = sorted(self._store.fetch_all(self._emitted_until_ms + 1, until_ms), key=lambda row: row[0].start_ms)
        self._emitted_until_ms = until_ms
        for key, row in closed:
            window = self.windows.window_at(key.start_ms)
            self._forward(TableRecord(windowed(key.key, window), Change(row.value), row.timestamp_ms))
