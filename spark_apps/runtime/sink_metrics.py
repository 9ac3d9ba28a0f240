"""What batches wrote since the start of the process, for the heartbeat and the metrics."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Written:
    """Sums over all batches. `replayed_tasks` found their records committed by an earlier attempt.

    `write_ms` and `commit_ms` are those of each batch's slowest task. `dropped` records were left out: they came too
    late, or had no key. `stream_time_ms` is the newest timestamp of all tasks, -1 before the first. `state_rows` is how
    many rows each task's stores have, as of its last batch.
    """

    batches: int = 0
    records: int = 0
    dead_letters: int = 0
    replayed_tasks: int = 0
    write_ms: int = 0
    commit_ms: int = 0
    dropped: int = 0
    stream_time_ms: int = -1
    state_rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchWritten:
    """What one write of one batch adds."""

    records: int
    dead_letters: int
    replayed_tasks: int
    write_ms: int
    commit_ms: int
    dropped: int = 0
    stream_time_ms: int = -1
    state_rows: Mapping[str, int] = field(default_factory=dict)


class SinkMetrics:
    """Adds up what batches wrote. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sum = Written()

    def add(self, batch: BatchWritten) -> None:
        """Counts one write."""
        with self._lock:
            was = self._sum
            self._sum = replace(
                was,
                batches=was.batches + 1,
                records=was.records + batch.records,
                dead_letters=was.dead_letters + batch.dead_letters,
                replayed_tasks=was.replayed_tasks + batch.replayed_tasks,
                write_ms=was.write_ms + batch.write_ms,
                commit_ms=was.commit_ms + batch.commit_ms,
                dropped=was.dropped + batch.dropped,
                stream_time_ms=max(was.stream_time_ms, batch.stream_time_ms),
                state_rows={**was.state_rows, **batch.state_rows},
            )

    @property
    def sum(self) -> Written:
        """The sums so far."""
        with self._lock:
            return self._sum
