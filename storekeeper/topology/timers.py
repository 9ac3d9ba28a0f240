"""Timers of processors: by stream time, which records move, and by the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from storekeeper.errors import InvalidArgumentError


class TimeKind(StrEnum):
    """The clock that a timer follows."""

    STREAM_TIME = "stream_time"
    WALL_CLOCK = "wall_clock"


@dataclass(slots=True)
class Timer:
    """One periodic timer. `cancel` ends it.

    Attributes:
        name: unique in its task, as its due time outlives the process.
        every_ms: its interval.
        kind: its clock.
        callback: called with the time at which it fires.
        due_ms: when it fires next; None before its clock is known.
    """

    name: str
    every_ms: int
    kind: TimeKind
    callback: Callable[[int], None]
    due_ms: int | None = None
    cancelled: bool = False

    def cancel(self) -> None:
        """Never calls it again."""
        self.cancelled = True


class Timers:
    """The timers of one task."""

    def __init__(self, due: Mapping[str, int]) -> None:
        self._due = due
        self._timers: list[Timer] = []
        self.follow_stream_time = False

    def add(self, name: str, every_ms: int, kind: TimeKind, callback: Callable[[int], None]) -> Timer:
        """Calls `callback` every `every_ms`; a timer by stream time fires with the first record, too.

        Raises:
            InvalidArgumentError: the interval is no whole number of at least 1.
        """
        if type(every_ms) is not int or every_ms < 1:
            msg = f"a timer can't fire every {every_ms!r:.40} ms: use a whole number of milliseconds, 1 or more"
            raise InvalidArgumentError(msg)
        timer = Timer(name, every_ms, kind, callback, self._due.get(name))
        for place, known in enumerate(self._timers):
            if known.name == name:  # its processor was made anew
                timer.due_ms = None if known.cancelled else known.due_ms
                self._timers[place] = timer
                return timer
        self._timers.append(timer)
        self.follow_stream_time = self.follow_stream_time or kind is TimeKind.STREAM_TIME
        return timer

    def advance(self, kind: TimeKind, now_ms: int) -> None:
        """Fires what is due, once each: intervals that were missed are skipped."""
        for timer in self._timers:
            if timer.kind is not kind or timer.cancelled:
                continue
            if timer.due_ms is None:
                timer.due_ms = now_ms if kind is TimeKind.STREAM_TIME else now_ms + timer.every_ms
            if timer.due_ms <= now_ms:
                timer.due_ms += ((now_ms - timer.due_ms) // timer.every_ms + 1) * timer.every_ms
                timer.callback(now_ms)

    @property
    def dues(self) -> list[int | None]:
        """When each timer fires next, in the order in which they were added."""
        return [timer.due_ms for timer in self._timers]

    @dues.setter
    def dues(self, dues: list[int | None]) -> None:
        del self._timers[len(dues) :]
        for timer, due_ms in zip(self._timers, dues, strict=True):
            timer.due_ms = due_ms

    def due(self) -> dict[str, int]:
        """When each timer fires next."""
        return {timer.name: timer.due_ms for timer in self._timers if timer.due_ms is not None and not timer.cancelled}
