"""What a replica reports during a restore: its events, and progress with rate and remaining time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import structlog

from storekeeper.clock import Clock

log = structlog.get_logger(__name__)

_LOG_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class RestoreProgress:
    """One moment of a restore. `offset` is the next one to apply. `records` counts those read so far, those without a
    key included.
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


class RestoreEvent(StrEnum):
    """What a replica reports; the values are the names of log events."""

    STARTED = "restore_started"
    PROGRESS = "restore_progress"
    """A batch is in the store, its checkpoint too."""
    ENDED = "restore_ended"
    """The reader's position has reached the end."""
    SUSPENDED = "restore_suspended"
    """It stopped before the end: the node stops, or the store can't take writes now."""


RestoreListener = Callable[[RestoreEvent, RestoreProgress], None]
"""Listens to restores. Called from the thread that restores: it must be quick and must not raise."""


class ProgressThrottle:
    """Lets progress of one replica through at most every `every_s` seconds, and every other event."""

    def __init__(self, clock: Clock, every_s: float) -> None:
        self._clock = clock
        self._every_s = every_s
        self._next_s: dict[tuple[str, int], float] = {}

    def lets_through(self, event: RestoreEvent, progress: RestoreProgress) -> bool:
        """Whether an event is due."""
        replica, now_s = (progress.store, progress.partition), self._clock.monotonic_s()
        if event is RestoreEvent.PROGRESS and now_s < self._next_s.get(replica, 0.0):
            return False
        self._next_s[replica] = now_s + self._every_s
        return True


def logging_listener(clock: Clock) -> RestoreListener:
    """Writes each restore's beginning and end to the log, and its progress at most every ten seconds."""
    throttle = ProgressThrottle(clock, _LOG_EVERY_S)

    def listen(event: RestoreEvent, progress: RestoreProgress) -> None:
        if throttle.lets_through(event, progress):
            report = log.warning if event is RestoreEvent.SUSPENDED else log.info
            report(event.value, **_fields(progress))

    return listen


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
