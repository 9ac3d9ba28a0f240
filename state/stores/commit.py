"""Commits the stores of a task together: when it is due, or when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from state.clock import Clock, SystemClock
from state.errors import ConfigurationError
from state.metrics.latency import LatencyRecorder
from state.stores.layers import StateStore

DEFAULT_INTERVAL_MS = 30_000
"""As in Kafka Streams: `commit.interval.ms` without exactly-once."""


class Committer:
    """Flushes caches, stores and changelogs of one task, in the order given, and then calls back.

    Args:
        stores: the task's stores.
        interval_ms: how long writes may wait.
        clock: where the interval is measured.
        on_commit: called after every store is flushed: the place to commit input offsets, which must never be ahead of
            what is safe.

    Attributes:
        latency: how long commits took.
    """

    def __init__(
        self,
        stores: Sequence[StateStore],
        *,
        interval_ms: int = DEFAULT_INTERVAL_MS,
        clock: Clock | None = None,
        on_commit: Callable[[], None] | None = None,
    ) -> None:
        if interval_ms < 0:
            msg = f"a commit interval can't be {interval_ms} ms"
            raise ConfigurationError(msg)
        self._stores = tuple(stores)
        self._interval_s = interval_ms / 1000
        self._clock = clock or SystemClock()
        self._on_commit = on_commit
        self._last_s = self._clock.monotonic_s()
        self.latency = LatencyRecorder()

    def maybe_commit(self) -> bool:
        """Commits if the interval is over; returns whether it did. Call it between records."""
        if self._clock.monotonic_s() - self._last_s < self._interval_s:
            return False
        self.commit()
        return True

    def commit(self) -> None:
        """Commits now.

        Raises:
            DiskFullError: a store couldn't be flushed; nothing was lost, and `on_commit` was not called.
        """
        begin_s = self._clock.monotonic_s()
        for store in self._stores:
            store.flush()
        if self._on_commit is not None:
            self._on_commit()
        self._last_s = self._clock.monotonic_s()
        self.latency.record(round((self._last_s - begin_s) * 1e9))
