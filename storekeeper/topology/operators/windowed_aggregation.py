"""Aggregations of a stream into windows: what all of them share, and those over aligned windows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from sortedcontainers import SortedDict

from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.aggregator import Aggregator
from storekeeper.topology.dropped_records import DroppedRecords, DropReason
from storekeeper.topology.functions import Push
from storekeeper.topology.records import Change, Forward
from storekeeper.topology.table import Table
from storekeeper.topology.times import StreamTime
from storekeeper.topology.undo import Undo
from storekeeper.topology.windows import FOREVER_MS, EmitStrategy

K = TypeVar("K")


class ClosingIndex(Generic[K]):
    """Open windows by the time that decides about their closing: a window's start, a session's end.

    It saves emission on close from scanning the whole store for each record. In memory: one entry for each window that
    isn't emitted yet. Not thread-safe.
    """

    def __init__(self, key_bytes: Callable[[K], Any] = lambda key: key, undo: Undo | None = None) -> None:
        """Begins empty. Windows of keys with the same bytes, and of the same times, are the same window.

        `undo` notes how to take changes back.
        """
        self._undo = undo
        self._windows: SortedDict = SortedDict()
        self._key_bytes = key_bytes

    def __len__(self) -> int:
        return sum(len(windows) for windows in self._windows.values())

    def add(self, time_ms: int, window: Windowed[K]) -> None:
        """Remembers a window; one that is known already stays as it is."""
        windows = self._windows.get(time_ms)
        if windows is None:
            windows = self._windows[time_ms] = {}
        identity = self._identity(window)
        if identity not in windows:
            windows[identity] = window
            if self._undo is not None:
                self._undo.add(self._forget, time_ms, identity)

    def discard(self, time_ms: int, window: Windowed[K]) -> None:
        """Forgets a window, if it is known."""
        known = self._forget(time_ms, self._identity(window))
        if known is not None and self._undo is not None:
            self._undo.add(self.add, time_ms, known)

    def take_until(self, time_ms: int) -> list[Windowed[K]]:
        """Takes out all windows up to `time_ms`, inclusive, in the order of their times.

        Those of one time come in the order of start and key, so that results don't depend on the order of arrival;
        keys that have no order come as they arrived.
        """
        due: list[Windowed[K]] = []
        while self._windows and self._windows.peekitem(0)[0] <= time_ms:
            closed_ms, windows = self._windows.popitem(0)
            if self._undo is not None:
                self._undo.add(self._windows.__setitem__, closed_ms, windows)
            due.extend(_in_key_order(list(windows.values())))
        return due

    def _forget(self, time_ms: int, identity: tuple[Any, int, int]) -> Windowed[K] | None:
        windows = self._windows.get(time_ms)
        if windows is None:
            return None
        window: Windowed[K] | None = windows.pop(identity, None)
        if not windows:
            del self._windows[time_ms]
        return window

    def _identity(self, window: Windowed[K]) -> tuple[Any, int, int]:
        return self._key_bytes(window.key), window.start_ms, window.end_ms


def _in_key_order(windows: list[Windowed[K]]) -> list[Windowed[K]]:
    try:
        return sorted(windows, key=lambda window: (window.start_ms, window.key))
    except TypeError:
        return windows


V = TypeVar("V")
A = TypeVar("A")

First = Callable[[Any, int, int], Any]
"""Makes the first argument of an adder, of key, start and end: the windowed key, or the key alone."""
NOTHING_EMITTED_MS = -1
"""`emitted_until_ms` before the first emission on close."""


class StreamAggregation(Table[Windowed[K], A], Generic[K, V, A]):
    """A table of one aggregate for each key and window, made from a stream of records.

    Records without key or value are left out and counted. A record advances stream time before its lateness is
    checked, so one that comes far ahead closes the windows behind it.
    """

    def __init__(
        self,
        windows: Any,
        aggregator: Aggregator[Any, V, A],
        store: Any,
        dropped: DroppedRecords,
        stream_time: StreamTime,
        *,
        context: RecordContext,
        is_plain: Callable[[A], bool] = lambda _: True,
        as_read: Callable[[Any, A | None], A | None] = lambda _, aggregate: aggregate,
        key_bytes: Callable[[K], Any] = lambda key: key,
        emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
        emitted_until_ms: int = NOTHING_EMITTED_MS,
        undo: Undo | None = None,
    ) -> None:
        """Builds the table over its store.

        Args:
            windows: the windows that records fall into.
            aggregator: how an aggregate begins and how sessions are merged.
            store: the rows: `WindowCells`, a window store or a session store. It keeps them at least
                `windows.min_retention_ms`.
            dropped: counts what is left out.
            stream_time: how far the records have come.
            context: the record under way. It does not make the windows that it closes: they go out without headers.
            is_plain: whether an aggregate surely reads as it is.
            as_read: `as_read(key, aggregate)` is the aggregate as the store will give it.
            key_bytes: what tells keys apart.
            emit: on every update, or once when a window closes.
            emitted_until_ms: `emitted_until_ms` of the task before: what it emitted isn't emitted again.
            undo: notes how to take changes back.
        """
        super().__init__()
        self.windows = windows
        self.stream_time = stream_time
        self._context = context
        self._aggregator = aggregator
        self._store = store
        self._is_plain = is_plain
        self._as_read = as_read
        self.dropped = dropped
        self._on_close = emit is EmitStrategy.ON_WINDOW_CLOSE
        self._emitted_until_ms = emitted_until_ms
        self._closing: ClosingIndex[K] = ClosingIndex(key_bytes, undo)
        if undo is not None:
            undo.keep(self, "_emitted_until_ms")
        self._release: Forward[Windowed[K], A] = self._forward
        if self._on_close:
            self._read_rows()

    @property
    def emitted_until_ms(self) -> int:
        """How far windows were emitted on close, inclusive: by start, sessions by end. Keep it beside the rows."""
        return self._emitted_until_ms

    def release_by(self, releasing: Callable[[Forward[Windowed[K], A]], Forward[Windowed[K], A]]) -> None:
        """Guards the function that takes the windows which are emitted on close."""
        self._release = releasing(self._forward)

    def adding(self, add: Callable[..., A | None], first: First | None) -> Push:
        """What takes the records of one stream. Streams with adders of their own share the table.

        Args:
            add: `add(aggregate, value)`, or `add(first, aggregate, value)`.
            first: makes the first argument; None: there is none.

        The function raises an `InvalidTimestampError` if the timestamp is negative. Nothing was changed then.
        """
        time, drop, aggregate = self.stream_time, self.dropped.drop, self._aggregating(add, first)

        def process(key: K | None, value: V | None, timestamp_ms: int) -> None:
            if key is None or value is None:
                drop(DropReason.NULL_KEY if key is None else DropReason.NULL_VALUE)
                return
            now_ms = time.now_ms
            if not 0 <= timestamp_ms <= now_ms:
                now_ms = time.observe(timestamp_ms)
            if self._on_close:
                # First: this record can't change the windows that it closes, but its put may expire them in the store.
                self._emit_closed(self._closed_until(now_ms))
            aggregate(key, value, timestamp_ms)

        return process

    def get(self, key: Windowed[K]) -> ValueAndTimestamp[A] | None:
        """The window's row as of now, or None. One that is emitted on close doesn't exist before its window closed."""
        return None if self._on_close and self._decides_ms(key) > self._emitted_until_ms else self._row(key)

    def is_expired(self, key: Windowed[K]) -> bool:
        """Whether its store does not keep the window any more."""
        oldest_ms: int = self._store.stream_time.oldest_live_ms
        return self._decides_ms(key) < oldest_ms

    @abstractmethod
    def _row(self, key: Windowed[K]) -> ValueAndTimestamp[A] | None:
        """The window's row, emitted or not."""

    @abstractmethod
    def _decides_ms(self, key: Windowed[K]) -> int:
        """The time that decides about the window's closing and expiry: its start, or a session's end."""

    @abstractmethod
    def _aggregating(self, add: Callable[..., A | None], first: First | None) -> Push:
        """What brings a record into all windows that it belongs to."""

    @abstractmethod
    def _closed_until(self, now_ms: int) -> int:
        """The latest start, or end of sessions, inclusive, of what is closed at stream time `now_ms`."""

    @abstractmethod
    def _read_rows(self) -> None:
        """Finds the rows that are still to be emitted on close."""

    def _emit_closed(self, until_ms: int) -> None:
        self._emitted_until_ms = max(self._emitted_until_ms, until_ms)
        closed = self._closing.take_until(until_ms)
        if not closed:
            return
        under_way = self._context.origin
        self._context.come_from_headers(())
        for window in closed:
            row = self._row(window)
            if row is not None:
                self._release(window, Change(row.value), row.timestamp_ms)
        self._context.come_from(under_way)


class WindowedTable(StreamAggregation[K, V, A]):
    """Aggregates in windows that follow from their starts: late records and rows.

    Records whose window is closed are left out and counted, too. A row is stamped with the greatest timestamp of the
    records in it: a late record doesn't lower it.
    """

    def _row(self, key: Windowed[K]) -> ValueAndTimestamp[A] | None:
        if self.windows.end_of(key.start_ms) != key.end_ms:
            return None
        row: ValueAndTimestamp[A] | None = self._store.fetch_one(key.key, key.start_ms)
        return row

    def _decides_ms(self, key: Windowed[K]) -> int:
        return key.start_ms

    def _closed_until(self, now_ms: int) -> int:
        until_ms: int = self.windows.starts_closed_by(now_ms)
        return until_ms

    def _read_rows(self) -> None:
        for key, row in self._store.fetch_all(0, FOREVER_MS):
            self.stream_time.observe(max(0, row.timestamp_ms))
            if key.start_ms > self._emitted_until_ms:
                end_ms = self.windows.end_of(key.start_ms)
                self._closing.add(key.start_ms, Windowed(key.key, key.start_ms, end_ms))


class WindowedAggregation(WindowedTable[K, V, A]):
    """One aggregate for each key and tumbling, hopping or unlimited window.

    A record may be late for one of its hopping windows and in time for the next; each miss is counted.
    """

    def _aggregating(self, add: Callable[..., A | None], first: First | None) -> Push:
        time, drop, on_close, downstream = self.stream_time, self.dropped.drop, self._on_close, self._downstream
        starts_for, end_of, closes_after_ms = self.windows.starts_for, self.windows.end_of, self.windows.closes_after_ms
        cell_of, write, initialize = self._store.cell, self._store.write, self._aggregator.initialize
        is_plain, as_read = self._is_plain, self._as_read

        def aggregate(key: K, value: V, timestamp_ms: int) -> None:
            closed_ms = time.now_ms - closes_after_ms
            for start_ms in starts_for(timestamp_ms):
                if start_ms <= closed_ms:
                    drop(DropReason.EXPIRED_WINDOW)
                    continue
                cell = cell_of(key, start_ms)
                old, newest_ms = cell.value, timestamp_ms
                base = initialize() if old is None else old
                new = add(base, value) if first is None else add(first(key, start_ms, end_of(start_ms)), base, value)
                if new is not None and not is_plain(new):
                    new = as_read(Windowed(key, start_ms, end_of(start_ms)), new)
                if old is not None and cell.timestamp_ms > timestamp_ms:
                    newest_ms = cell.timestamp_ms
                if on_close and not cell.changed:
                    self._closing.add(start_ms, Windowed(key, start_ms, end_of(start_ms)))
                write(cell, new, newest_ms)
                if downstream and not on_close:
                    change = Change(new, old if self._sends_old_values else None)
                    self._forward(Windowed(key, start_ms, end_of(start_ms)), change, newest_ms)

        return aggregate
