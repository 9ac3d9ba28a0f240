"""Aggregation over session windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.aggregator import Aggregator, Merger
from storekeeper.topology.change import Change
from storekeeper.topology.dropped_records import DropReason
from storekeeper.topology.functions import Push
from storekeeper.topology.operators.windowed_aggregation import First, StreamAggregation
from storekeeper.topology.windows import FOREVER_MS, SessionWindow, SessionWindows

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
        return lambda key, value, timestamp_ms: self._aggregate(add, first, key, value, timestamp_ms)

    def _aggregate(
        self, add: Callable[..., A | None], first: First | None, key: K, value: V, timestamp_ms: int
    ) -> None:
        gap_ms, merge = self.windows.gap_ms, self._merge
        alone = merged = SessionWindow(timestamp_ms, timestamp_ms)
        aggregate = self._aggregator.initialize()
        neighbours = list(self._store.find_sessions(key, max(0, timestamp_ms - gap_ms), timestamp_ms + gap_ms))
        for neighbour, neighbour_aggregate in neighbours:
            aggregate = merge(key, aggregate, neighbour_aggregate)
            merged = merged.merge(SessionWindow(neighbour.start_ms, neighbour.end_ms))
        if self.windows.closes_at_ms(merged.end_ms) <= self.stream_time.now_ms:
            self.dropped.drop(DropReason.EXPIRED_WINDOW)
            return
        if merged != alone:
            for neighbour, neighbour_aggregate in neighbours:
                self._replace(neighbour, None, old=neighbour_aggregate)
        old = neighbours[0][1] if merged == alone and neighbours else None
        session = Windowed(key, merged.start_ms, merged.end_ms)
        new = add(aggregate, value) if first is None else add(first(*session), aggregate, value)
        self._replace(session, new, old=old)

    def _replace(self, session: Windowed[K], aggregate: A | None, *, old: A | None) -> None:
        aggregate = self._as_read(session, aggregate)
        if self._on_close:
            remember = self._closing.discard if aggregate is None else self._closing.add
            remember(session.end_ms, session)
        self._store.put(session.key, session.start_ms, session.end_ms, aggregate)
        if not self._on_close:
            self._forward(session, Change(aggregate, old if self._sends_old_values else None), session.end_ms)

    def _read_rows(self) -> None:
        for session, _ in self._store.find_sessions_ended(0, FOREVER_MS):
            self.stream_time.observe(session.end_ms)
            if session.end_ms > self._emitted_until_ms:
                self._closing.add(session.end_ms, session)
