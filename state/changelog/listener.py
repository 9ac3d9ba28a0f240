"""What a replica reports during a restore: Kafka Streams' listener, and progress with rate and remaining time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import structlog

from state.clock import Clock

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RestoreProgress:
    """One moment of a restore.

    Attributes:
        store, partition: which.
        start_offset: where it began.
        offset: the next offset to apply.
        end_offset: where it is to end.
        records: records read so far in this restore, those without a key included.
        elapsed_s: seconds since it began.
    """

    store: str
    partition: int
    start_offset: int
    offset: int
    end_offset: int
    records: int
    elapsed_s: float

    @property
    def remaining(self) -> int:
        """At most this many records are left."""
        return max(0, self.end_offset - self.offset)

    @property
    def records_per_second(self) -> float:
        """Mean rate since the beginning; 0 when no time has passed."""
        return self.records / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """Seconds to the end at the pace of offsets so far; None while there is no pace."""
        passed = self.offset - self.start_offset
        if self.remaining == 0:
            return 0.0
        return self.remaining * self.elapsed_s / passed if passed > 0 and self.elapsed_s > 0 else None


class RestoreListener(Protocol):
    """Listens to restores. Called from the thread that restores: it must be quick and must not raise."""

    def on_restore_start(self, progress: RestoreProgress) -> None:
        """A restore begins."""
        ...

    def on_batch_restored(self, progress: RestoreProgress) -> None:
        """A batch is in the store, its checkpoint too."""
        ...

    def on_restore_end(self, progress: RestoreProgress) -> None:
        """The reader's position has reached the end."""
        ...

    def on_restore_suspended(self, progress: RestoreProgress) -> None:
        """It stopped before the end: the node stops, or the store can't take writes now."""
        ...


class LoggingRestoreListener:
    """Writes each restore's beginning and end to the log, and its progress at most every ten seconds."""

    def __init__(self, clock: Clock, every_s: float = 10.0) -> None:
        self._clock = clock
        self._every_s = every_s
        self._next: dict[tuple[str, int], float] = {}

    def on_restore_start(self, progress: RestoreProgress) -> None:
        """Logs `restore_started`."""
        self._next[progress.store, progress.partition] = self._clock.monotonic_s() + self._every_s
        log.info("restore_started", **_fields(progress))

    def on_batch_restored(self, progress: RestoreProgress) -> None:
        """Logs `restore_progress` now and then."""
        now = self._clock.monotonic_s()
        if now >= self._next.get((progress.store, progress.partition), 0.0):
            self._next[progress.store, progress.partition] = now + self._every_s
            log.info("restore_progress", **_fields(progress))

    def on_restore_end(self, progress: RestoreProgress) -> None:
        """Logs `restore_ended`."""
        log.info("restore_ended", **_fields(progress))

    def on_restore_suspended(self, progress: RestoreProgress) -> None:
        """Logs `restore_suspended`."""
        log.warning("restore_suspended", **_fields(progress))


def _fields(progress: RestoreProgress) -> dict[str, object]:
    return {
        "store": progress.store,
        "partition": progress.partition,
        "offset": progress.offset,
        "end_offset": progress.end_offset,
        "records": progress.records,
        "records_per_second": round(progress.records_per_second),
        "eta_s": None if progress.eta_s is None else round(progress.eta_s, 1),
    }
