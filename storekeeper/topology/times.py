"""Times: of events, of a partition's stream, and the timers of processors, by stream time or the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from operator import index
from typing import Any

from storekeeper.errors import FutureTimestampError, InvalidArgumentError, InvalidTimestampError


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
        """Fires what is due, once each: intervals that were missed are skipped. Nothing is due later than after one."""
        for timer in self._timers:
            if timer.kind is not kind or timer.cancelled:
                continue
            if timer.due_ms is None:
                timer.due_ms = now_ms if kind is TimeKind.STREAM_TIME else now_ms + timer.every_ms
            if timer.due_ms <= now_ms:
                timer.due_ms += ((now_ms - timer.due_ms) // timer.every_ms + 1) * timer.every_ms
                timer.callback(now_ms)
            elif timer.due_ms > now_ms + timer.every_ms:  # noted while the clock was ahead, or by a longer interval
                timer.due_ms = now_ms + timer.every_ms

    def due_in_ms(self, now_ms: int) -> int | None:
        """How long it is until the first timer by the wall clock is due, 0 if one is; None if there is none."""
        dues = [timer.due_ms for timer in self._timers if timer.kind is TimeKind.WALL_CLOCK and not timer.cancelled]
        return min((max(0, due_ms - now_ms) for due_ms in dues if due_ms is not None), default=None)

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


UNKNOWN_MS = -1
"""Stream time before the first record."""


class StreamTime:
    """The greatest timestamp seen in one partition, epoch ms. It never goes back, and keys share it.

    Whether a record is late depends on it, so it outlives the process: after a restore, start with what the store has
    observed, else expired windows would take records again. One instance a partition; not thread-safe.

    Attributes:
        now_ms: the greatest timestamp so far, or `UNKNOWN_MS` before the first.
    """

    __slots__ = ("now_ms",)

    def __init__(self, restored_ms: int = UNKNOWN_MS) -> None:
        self.now_ms = restored_ms

    def observe(self, timestamp_ms: int) -> int:
        """Takes a record's timestamp into account and returns stream time, which an older record leaves as it was.

        Raises:
            InvalidTimestampError: the timestamp is negative. Stream time stays.
        """
        if timestamp_ms < 0:
            raise InvalidTimestampError(f"a record can't be stamped {timestamp_ms} ms: use epoch milliseconds from 0")
        self.now_ms = max(self.now_ms, timestamp_ms)
        return self.now_ms


LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999. Readers can't show a later time, and leave the row out."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def epoch_ms(time: Any) -> int:
    """A time as epoch milliseconds: a whole number of them, or a `datetime` with a time zone.

    Raises:
        InvalidTimestampError: it is something else, such as a float or None, or before 1970, or after the year 9999.
    """
    if isinstance(time, datetime) and time.tzinfo is not None:
        at_ms = (time - _EPOCH) // timedelta(milliseconds=1)
    else:
        at_ms = _whole(time)
    if not 0 <= at_ms <= LATEST_MS:
        raise out_of_range(at_ms)
    return at_ms


def out_of_range(time_ms: int) -> InvalidTimestampError:
    """The error of a time that is too early or too late."""
    if time_ms < 0:
        return InvalidTimestampError("its time is before 1970")
    if time_ms > LATEST_MS:
        return InvalidTimestampError("its time is after the year 9999: are these microseconds?")
    return FutureTimestampError(
        "its time is further ahead than the app's own topics take: see their message.timestamp.after.max.ms"
    )


def _whole(time: Any) -> int:
    # bool is an int, and the number of a month is a time only by mistake: of ints, only those that mean a number.
    if isinstance(time, bool) or not hasattr(time, "__index__"):
        kind = "a datetime without time zone" if isinstance(time, datetime) else f"a {type(time).__name__}"
        msg = f"its time is {kind}: give whole epoch milliseconds, or a datetime with a time zone"
        raise InvalidTimestampError(msg)
    return index(time)
