"""What every aggregation of a stream into windows or sessions shares: which records count, and emission on close."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from state.stores.windowed import Windowed
from state.tables.aggregator import Aggregator
from state.tables.change import Change, TableRecord
from state.tables.closing_index import ClosingIndex
from state.tables.dropped_records import DroppedRecords, DropReason
from state.tables.emit_strategy import EmitStrategy
from state.tables.stream_time import StreamTime
from state.tables.table import KTable

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

NOTHING_EMITTED_MS = -1
"""`emitted_until_ms` before the first emission on close."""


class StreamAggregation(KTable[Windowed[K], A], Generic[K, V, A]):
    """A table of one aggregate for each key and window, made from a stream of records.

    Records without key or value are left out and counted. A record advances stream time before its lateness is
    checked, so one that comes far ahead closes the windows behind it.
    """

    def __init__(
        self,
        aggregator: Aggregator[K, V, A],
        *,
        emit: EmitStrategy,
        stream_time: StreamTime | None,
        emitted_until_ms: int,
    ) -> None:
        super().__init__()
        self.dropped = DroppedRecords()
        self.stream_time = StreamTime() if stream_time is None else stream_time
        self._aggregator = aggregator
        self._emit = emit
        self._emitted_until_ms = emitted_until_ms
        self._closing: ClosingIndex[K] = ClosingIndex()

    @property
    def emitted_until_ms(self) -> int:
        """How far windows were emitted on close, inclusive: by start, sessions by end. Keep it beside the rows."""
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
        if self._emit is EmitStrategy.ON_WINDOW_CLOSE:
            # First: this record can't change the windows that it closes, but its put may expire them in the store.
            self._emit_closed(self._closed_until(now_ms))
        self._aggregate(key, value, timestamp_ms)

    def enable_sending_old_values(self, *, force: bool = False) -> bool:
        """Makes changes carry old values; the store has them."""
        self._sends_old_values = True
        return True

    @abstractmethod
    def _aggregate(self, key: K, value: V, timestamp_ms: int) -> None:
        """Brings the record into all windows that it belongs to."""

    @abstractmethod
    def _closed_until(self, now_ms: int) -> int:
        """The latest start, or end of sessions, inclusive, of what is closed at stream time `now_ms`."""

    def _emit_closed(self, until_ms: int) -> None:
        self._emitted_until_ms = max(self._emitted_until_ms, until_ms)
        for window in self._closing.take_until(until_ms):
            row = self.get(window)
            if row is not None:
                self._forward(TableRecord(window, Change(row.value), row.timestamp_ms))
