"""Aggregation over sliding windows.

A sliding window exists where its set of records differs from its neighbours': one ends at each record (its left
window), and one begins 1 ms after each record that has successors within reach (its right window). So a record touches

    1. every window that already holds its time,
    2. the right window of the record before it, if this is the first one in there,
    3. its own left window, if no record of the same time made it before,
    4. its own right window, if later records are there already.

New left and right windows start from the aggregate of an existing neighbour that holds exactly their other records.
Time doesn't go below 0, so all records before the first whole window share the window that starts at 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.dropped_records import DropReason
from storekeeper.topology.functions import Push
from storekeeper.topology.operators.windowed_aggregation import First, WindowedTable
from storekeeper.topology.records import Change

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
_Grown = Callable[[Windowed[K], A], A | None]
"""A window's aggregate with the record in it."""


class SlidingWindowAggregation(WindowedTable[K, V, A]):
    """One aggregate for each key and distinct set of records within the time difference.

    A record whose own right window is closed is left out whole; one that only came too late for some windows is
    counted once for each of those.
    """

    def _aggregating(self, add: Callable[..., A | None], first: First | None) -> Push:
        def aggregate(key: K, value: V, timestamp_ms: int) -> None:
            def grown(windowed: Windowed[K], aggregate: A) -> A | None:
                return add(aggregate, value) if first is None else add(first(*windowed), aggregate, value)

            self._aggregate(key, timestamp_ms, grown)

        return aggregate

    def _aggregate(self, key: K, timestamp_ms: int, grown: _Grown[K, A]) -> None:
        reach_ms = self.windows.time_difference_ms
        if self._is_closed(timestamp_ms):
            self.dropped.drop(DropReason.EXPIRED_WINDOW)
            return
        rows = dict(self._store.fetch(key, max(0, timestamp_ms - 2 * reach_ms), timestamp_ms + 1))
        holding = [start for start in rows if start <= timestamp_ms <= start + reach_ms]
        left_start = max(0, timestamp_ms - reach_ms)
        before = _row_before(rows, timestamp_ms, left_start, reach_ms)
        for start in holding:
            self._add(key, timestamp_ms, start, grown, base=rows[start], old=rows[start].value)
        if before is not None:
            previous_right = before.timestamp_ms + 1
            is_new = previous_right not in rows and previous_right != left_start
            if is_new and previous_right + reach_ms >= timestamp_ms:
                self._add(key, timestamp_ms, previous_right, grown, base=None)
        if left_start not in rows:
            shares_records = before is not None and before.timestamp_ms >= left_start
            self._add(key, timestamp_ms, left_start, grown, base=before if shares_records else None)
        if timestamp_ms + 1 not in rows and holding and rows[holding[-1]].timestamp_ms > timestamp_ms:
            # The latest window that holds this time begins after every earlier record, so without this record it is
            # the right window's content.
            content = rows[holding[-1]]
            right = Windowed(key, timestamp_ms + 1, timestamp_ms + 1 + reach_ms)
            self._put(right, content.value, content.timestamp_ms, old=None)

    def _add(
        self, key: K, timestamp_ms: int, start_ms: int, grown: _Grown[K, A],
        *, base: ValueAndTimestamp[A] | None, old: A | None = None,
    ) -> None:  # fmt: skip
        """Writes the window's row: `base`, or a fresh aggregate, with the record in it. Drops it if closed."""
        if self._is_closed(start_ms):
            self.dropped.drop(DropReason.EXPIRED_WINDOW)
            return
        aggregate = self._aggregator.initialize() if base is None else base.value
        newest_ms = timestamp_ms if base is None else max(base.timestamp_ms, timestamp_ms)
        windowed = Windowed(key, start_ms, self.windows.end_of(start_ms))
        self._put(windowed, grown(windowed, aggregate), newest_ms, old=old)

    def _put(self, key: Windowed[K], aggregate: A | None, timestamp_ms: int, *, old: A | None) -> None:
        aggregate = self._as_read(key, aggregate)
        row = None if aggregate is None else ValueAndTimestamp(aggregate, timestamp_ms)
        if self._on_close:
            self._closing.add(key.start_ms, key)
        self._store.put(key.key, row, key.start_ms)
        if not self._on_close:
            self._forward(key, Change(aggregate, old if self._sends_old_values else None), timestamp_ms)

    def _is_closed(self, start_ms: int) -> bool:
        is_closed: bool = start_ms <= self.windows.starts_closed_by(self.stream_time.now_ms)
        return is_closed


def _row_before(
    rows: dict[int, ValueAndTimestamp[A]], timestamp_ms: int, left_start: int, reach_ms: int
) -> ValueAndTimestamp[A] | None:
    """The row whose newest record is the last one before `timestamp_ms`, or None if there is none within reach.

    If the left window is there and holds this very time, everything that the record before it needs is there, too.
    """
    row = rows.get(left_start)
    if row is None:
        ended = [start for start in rows if start + reach_ms < timestamp_ms]
        row = rows[ended[-1]] if ended else None
    return row if row is not None and row.timestamp_ms < timestamp_ms else None
