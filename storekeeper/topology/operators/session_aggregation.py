"""Aggregation over session windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.aggregator import Aggregator, Merger
from storekeeper.topology.cells import SessionCell
from storekeeper.topology.dropped_records import DropReason
from storekeeper.topology.functions import Push
from storekeeper.topology.operators.windowed_aggregation import First, StreamAggregation
from storekeeper.topology.records import Change
from storekeeper.topology.windows import FOREVER_MS, SessionWindows

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class SessionAggregation(StreamAggregation[K, V, A]):
    """One aggregate for each key and session of activity.

    A record joins every session within the gap and so may bridge two. The sessions that it replaces go out as
    tombstones, before the merged one. Rows are stamped with the session's end.

    A record is late, left out and counted, only if the session that it would end up in is closed: a late record that
    bridges an old session to one that is still open is in time. Such a record can reopen a session that was emitted on
    close, as the gap it bridges reaches further than the session's own closing; the merged session is then emitted,
    too, once it closes. As in Kafka Streams, the earlier one isn't taken back.
    """

    def __init__(self, windows: SessionWindows, aggregator: Aggregator[Any, V, A], *rest: Any, **more: Any) -> None:
        """Builds the table over its store; see `StreamAggregation`.

        Raises:
            InvalidArgumentError: the aggregator can't join sessions.
        """
        self._merge: Merger[K, A] = aggregator.merger
        super().__init__(windows, aggregator, *rest, **more)

    def _row(self, key: Windowed[K]) -> ValueAndTimestamp[A] | None:
        aggregate = self._store.fetch_session(key.key, key.start_ms, key.end_ms)
        return None if aggregate is None else ValueAndTimestamp(aggregate, key.end_ms)

    def _decides_ms(self, key: Windowed[K]) -> int:
        return key.end_ms

    def _closed_until(self, now_ms: int) -> int:
        until_ms: int = self.windows.ends_closed_by(now_ms)
        return until_ms

    def _aggregating(self, add: Callable[..., A | None], first: First | None) -> Push:
        gap_ms, merge, initialize = self.windows.gap_ms, self._merge, self._aggregator.initialize

        def aggregate(key: K, value: V, timestamp_ms: int) -> None:
            start_ms = end_ms = timestamp_ms
            base = initialize()
            neighbours = self._store.near(key, max(0, timestamp_ms - gap_ms), timestamp_ms + gap_ms)
            for cell in neighbours:
                base = merge(key, base, cell.value)
                start_ms, end_ms = min(start_ms, cell.start_ms), max(end_ms, cell.end_ms)
            if self._closed_until(self.stream_time.now_ms) >= end_ms:
                self.dropped.drop(DropReason.EXPIRED_WINDOW)
                return
            same = neighbours[0] if neighbours and start_ms == end_ms else None
            for cell in neighbours if same is None else ():
                self._delete(key, cell)
            session = Windowed(key, start_ms, end_ms)
            new = add(base, value) if first is None else add(first(*session), base, value)
            self._put(session, self._as_read(session, new), same)

        return aggregate

    def _delete(self, key: K, cell: SessionCell) -> None:
        session, old = Windowed(key, cell.start_ms, cell.end_ms), cell.value
        self._store.delete(cell)
        if self._on_close:
            self._closing.discard(session.end_ms, session)
        else:
            self._forward(session, Change(None, old if self._sends_old_values else None), session.end_ms)

    def _put(self, session: Windowed[K], aggregate: A | None, same: SessionCell | None) -> None:
        old = None if same is None else same.value
        if same is None:
            self._store.put(*session, aggregate)
        elif aggregate is None:
            self._store.delete(same)
        else:
            self._store.write(same, aggregate)
        if self._on_close:
            remember = self._closing.discard if aggregate is None else self._closing.add
            remember(session.end_ms, session)
        else:
            self._forward(session, Change(aggregate, old if self._sends_old_values else None), session.end_ms)

    def _read_rows(self) -> None:
        for session, _ in self._store.find_sessions_ended(0, FOREVER_MS):
            self.stream_time.observe(session.end_ms)
            if session.end_ms > self._emitted_until_ms:
                self._closing.add(session.end_ms, session)
