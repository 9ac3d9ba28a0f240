"""What batches wrote since the start of the process, for the heartbeat and the metrics."""

from __future__ import annotations

from collections import deque

import msgspec


class Written(msgspec.Struct, frozen=True):
    """What a task, a batch, or all batches together wrote.

    Attributes:
        dead_letters: how many records became dead letters.
        replayed_tasks: how many tasks found their records committed by an earlier attempt.
        dropped: how many records were left out: they came too late, or had no key.
        stream_time_ms: the newest timestamp of all tasks, -1 before the first.
    """

    dead_letters: int = 0
    replayed_tasks: int = 0
    dropped: int = 0
    stream_time_ms: int = -1

    def __add__(self, later: Written) -> Written:
        return Written(
            self.dead_letters + later.dead_letters,
            self.replayed_tasks + later.replayed_tasks,
            self.dropped + later.dropped,
            max(self.stream_time_ms, later.stream_time_ms),
        )


class SinkMetrics:
    """Adds up what batches wrote. Only Spark's thread adds, any thread may read `sum`.

    Attributes:
        sum: the sum so far.
    """

    def __init__(self) -> None:
        self.sum = Written()
        self._unreported: deque[tuple[int, int]] = deque()
        self._reported_dead_letters = 0

    def add(self, batch_id: int, batch: Written) -> None:
        """Counts what one batch wrote."""
        self.sum += batch
        self._unreported.append((batch_id, self.sum.dead_letters))

    def dead_letters_until(self, batch_id: int | None) -> int:
        """The dead letters of the batches that Spark has reported. Spark reports a batch's rows after its commit.

        Args:
            batch_id: the newest reported batch, None before the first. It must not decrease from call to call. One
                thread calls this.
        """
        while batch_id is not None and self._unreported and self._unreported[0][0] <= batch_id:
            _, self._reported_dead_letters = self._unreported.popleft()
        return self._reported_dead_letters
