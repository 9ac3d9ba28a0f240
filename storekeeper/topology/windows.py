"""Windows and how records fall into them, as Kafka Streams defines them.

Four shapes of window, each in time order of its start:

    TimeWindow       [start, end)   tumbling and hopping: aligned to the epoch, the same for every key
    SlidingWindow    [start, end]   one ends at each record, one begins just after it
    SessionWindow    [start, end]   from a session's first record to its last
    UnlimitedWindow  [start, ...)   never ends, never closes

and one definition for each: `TimeWindows`, `SlidingWindows`, `SessionWindows`, `UnlimitedWindows`. A definition has

    closes_at_ms   the first stream time at which no record can change the window any more: the aggregations drop what
                   comes later, and emission on close waits until then
    final_at_ms    the stream time at which suppression lets the window through. As in Kafka Streams: where the end is
                   inclusive, a record at that very instant can still change the window

All times are epoch milliseconds. Everything here is immutable and thread-safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Generic, Self, TypeVar

from storekeeper.errors import InvalidWindowError
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import key_serde
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.store import milliseconds

K = TypeVar("K")
NONE = timedelta()
_GRACE = "a window's grace"

FOREVER_MS = 2**63 - 1
"""The end of a window that never ends, and the closing time of one that never closes."""


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A span of event time. Windows of different shapes are never equal and can't be compared.

    Raises:
        InvalidWindowError: the start is negative or the end is before the start.
    """

    start_ms: int
    end_ms: int

    def __post_init__(self) -> None:
        if self.start_ms < 0:
            raise InvalidWindowError(f"a window can't start at {self.start_ms} ms: use epoch milliseconds from 0")
        if self.end_ms < self.start_ms:
            msg = f"a window can't end at {self.end_ms} ms, before its start at {self.start_ms} ms: swap the bounds"
            raise InvalidWindowError(msg)

    def overlap(self, other: Window) -> bool:
        """Whether some instant lies in both windows.

        Raises:
            InvalidWindowError: `other` is of another shape.
        """
        self._require_same_shape(other)
        return self.start_ms <= other.end_ms and other.start_ms <= self.end_ms

    def _require_same_shape(self, other: Window) -> None:
        if type(other) is not type(self):
            msg = f"a {type(self).__name__} can't be compared with a {type(other).__name__}: compare like with like"
            raise InvalidWindowError(msg)


@dataclass(frozen=True, slots=True, order=True)
class TimeWindow(Window):
    """`[start_ms, end_ms)`: the end is exclusive, so it must be later than the start."""

    def __post_init__(self) -> None:
        Window.__post_init__(self)
        if self.end_ms == self.start_ms:
            msg = f"a time window must last at least 1 ms: [{self.start_ms}, {self.end_ms}) holds nothing"
            raise InvalidWindowError(msg)

    def overlap(self, other: Window) -> bool:
        """Whether some instant lies in both windows; windows that only touch don't overlap.

        Raises:
            InvalidWindowError: `other` is of another shape.
        """
        self._require_same_shape(other)
        return self.start_ms < other.end_ms and other.start_ms < self.end_ms


@dataclass(frozen=True, slots=True, order=True)
class SlidingWindow(Window):
    """`[start_ms, end_ms]`: both ends inclusive."""


@dataclass(frozen=True, slots=True, order=True)
class SessionWindow(Window):
    """`[start_ms, end_ms]`: both ends inclusive, equal for a session of one instant."""

    def merge(self, other: SessionWindow) -> SessionWindow:
        """The smallest session that covers both."""
        return SessionWindow(min(self.start_ms, other.start_ms), max(self.end_ms, other.end_ms))


@dataclass(frozen=True, slots=True, order=True)
class UnlimitedWindow(Window):
    """`[start_ms, ...)`: everything since the start."""

    @classmethod
    def since(cls, start_ms: int) -> Self:
        """The window from `start_ms`, inclusive, for ever."""
        return cls(start_ms, FOREVER_MS)


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows of one size, a new one every `advance_ms`, aligned to the epoch.

    A window is closed once stream time reaches its end plus grace: `end <= stream_time - grace`.

    Attributes:
        size_ms: how long a window is, at least 1.
        advance_ms: from one start to the next, 1 to `size_ms`. Equal to the size: tumbling. Less: hopping.
        grace_ms: how long after its end a window still takes late records, at least 0.

    Raises:
        InvalidWindowError: one of them is out of range.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        _require(self.size_ms >= 1, "size_ms", self.size_ms, "at least 1")
        _require(1 <= self.advance_ms <= self.size_ms, "advance_ms", self.advance_ms, f"1 to the size, {self.size_ms}")
        _require(self.grace_ms >= 0, "grace_ms", self.grace_ms, "0 or more")

    @classmethod
    def tumbling(cls, size_ms: int, *, grace_ms: int = 0) -> Self:
        """Windows side by side: each record falls into exactly one."""
        return cls(size_ms, size_ms, grace_ms)

    @classmethod
    def hopping(cls, size_ms: int, *, advance_ms: int, grace_ms: int = 0) -> Self:
        """Overlapping windows: each record falls into `size_ms / advance_ms` of them, rounded up or down."""
        return cls(size_ms, advance_ms, grace_ms)

    def starts_for(self, timestamp_ms: int) -> Sequence[int]:
        """The starts of the windows that hold `timestamp_ms`, earliest first. Windows never start before 0."""
        first = max(0, timestamp_ms - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return range(first, timestamp_ms + 1, self.advance_ms)

    @property
    def closes_after_ms(self) -> int:
        """The time from a window's start to its closing."""
        return self.size_ms + self.grace_ms

    @property
    def min_retention_ms(self) -> int:
        """The least retention of a window store that never expires a window before it is closed."""
        return self.closes_after_ms

    def window_at(self, start_ms: int) -> Window:
        """The window that starts at `start_ms`."""
        return TimeWindow(start_ms, self.end_of(start_ms))

    def end_of(self, start_ms: int) -> int:
        """The end of the window that starts at `start_ms`."""
        return start_ms + self.size_ms

    def closes_at_ms(self, end_ms: int) -> int:
        """The end plus grace: the end is exclusive, so a record at that instant already closes the window."""
        return end_ms + self.grace_ms

    def final_at_ms(self, end_ms: int) -> int:
        """The end plus grace, when it closes."""
        return end_ms + self.grace_ms

    def starts_closed_by(self, stream_time_ms: int) -> int:
        """The latest start, inclusive, of a window that is closed at `stream_time_ms`."""
        return stream_time_ms - self.closes_after_ms


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows that hold records at most `time_difference_ms` apart, one for each distinct set of such records.

    They aren't aligned to the epoch: which windows exist depends on which records came.

    Attributes:
        time_difference_ms: the greatest distance of two records in one window, inclusive, at least 0.
        grace_ms: how long after its end a window still takes late records, at least 0.

    Raises:
        InvalidWindowError: one of them is negative.
    """

    time_difference_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        _require(self.time_difference_ms >= 0, "time_difference_ms", self.time_difference_ms, "0 or more")
        _require(self.grace_ms >= 0, "grace_ms", self.grace_ms, "0 or more")

    @property
    def min_retention_ms(self) -> int:
        """The least retention of a window store that keeps what new windows are made from: a neighbour may start
        twice the time difference back, and the newest window starts 1 ms ahead of stream time.
        """
        return 2 * self.time_difference_ms + self.grace_ms + 3

    def window_at(self, start_ms: int) -> SlidingWindow:
        """The window that starts at `start_ms`."""
        return SlidingWindow(start_ms, self.end_of(start_ms))

    def end_of(self, start_ms: int) -> int:
        """The end of the window that starts at `start_ms`."""
        return start_ms + self.time_difference_ms

    def closes_at_ms(self, end_ms: int) -> int:
        """One more than the end plus grace: the end is inclusive, so a record at that instant still belongs."""
        return end_ms + self.grace_ms + 1

    def final_at_ms(self, end_ms: int) -> int:
        """The end plus grace."""
        return end_ms + self.grace_ms

    def starts_closed_by(self, stream_time_ms: int) -> int:
        """The latest start, inclusive, of a window that is closed at `stream_time_ms`."""
        return stream_time_ms - self.grace_ms - self.time_difference_ms - 1


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Sessions of activity, ended by more than `gap_ms` without a record. Records exactly `gap_ms` apart share one.

    Attributes:
        gap_ms: the inactivity that a session survives, at least 1.
        grace_ms: how much longer a session takes late records, at least 0.

    Raises:
        InvalidWindowError: one of them is out of range.
    """

    gap_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        _require(self.gap_ms >= 1, "gap_ms", self.gap_ms, "at least 1")
        _require(self.grace_ms >= 0, "grace_ms", self.grace_ms, "0 or more")

    @property
    def min_retention_ms(self) -> int:
        """The least retention of a session store that never expires a session before it is closed.

        A late record may bridge an open session to one that closed long ago, and can do so only while the store has it:
        keep sessions for longer where that matters.
        """
        return self.gap_ms + self.grace_ms + 1

    def closes_at_ms(self, end_ms: int) -> int:
        """One more than the end plus gap plus grace: a record exactly the gap away still extends the session."""
        return end_ms + self.gap_ms + self.grace_ms + 1

    def final_at_ms(self, end_ms: int) -> int:
        """The end plus gap plus grace."""
        return end_ms + self.gap_ms + self.grace_ms

    def ends_closed_by(self, stream_time_ms: int) -> int:
        """The latest end, inclusive, of a session that is closed at `stream_time_ms`."""
        return stream_time_ms - self.gap_ms - self.grace_ms - 1


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window that begins at `start_ms` and never closes. Earlier records belong to no window.

    Raises:
        InvalidWindowError: the start is negative.
    """

    start_ms: int = 0
    grace_ms: int = 0

    def __post_init__(self) -> None:
        _require(self.start_ms >= 0, "start_ms", self.start_ms, "0 or more")
        _require(self.grace_ms == 0, "grace_ms", self.grace_ms, "0, as the window never closes")

    def starts_for(self, timestamp_ms: int) -> Sequence[int]:
        """The start of the one window, or none for a record before it."""
        return (self.start_ms,) if timestamp_ms >= self.start_ms else ()

    @property
    def closes_after_ms(self) -> int:
        """No time is so far away."""
        return FOREVER_MS

    def window_at(self, start_ms: int) -> Window:
        """The window that starts at `start_ms`."""
        return UnlimitedWindow.since(start_ms)

    def end_of(self, start_ms: int) -> int:
        """There is none."""
        return FOREVER_MS

    def closes_at_ms(self, end_ms: int) -> int:
        """Never."""
        return FOREVER_MS

    def final_at_ms(self, end_ms: int) -> int:
        """Never."""
        return FOREVER_MS

    def starts_closed_by(self, stream_time_ms: int) -> int:
        """Never."""
        return -1


Windows = TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows


class EmitStrategy(StrEnum):
    """When windowed aggregations emit results: on every update, or once, when the window closes.

    Emission on close remembers in memory which windows are open.
    """

    ON_WINDOW_UPDATE = "update"
    ON_WINDOW_CLOSE = "close"


def tumbling(size: timedelta, *, grace: timedelta = NONE) -> TimeWindows:
    """Windows side by side: each record falls into one."""
    return TimeWindows.tumbling(milliseconds(size, "a window's size"), grace_ms=milliseconds(grace, _GRACE))


def hopping(size: timedelta, *, advance: timedelta, grace: timedelta = NONE) -> TimeWindows:
    """Windows that overlap: a new one every `advance`."""
    size_ms, advance_ms = milliseconds(size, "a window's size"), milliseconds(advance, "a window's advance")
    return TimeWindows.hopping(size_ms, advance_ms=advance_ms, grace_ms=milliseconds(grace, _GRACE))


def sliding(difference: timedelta, *, grace: timedelta = NONE) -> SlidingWindows:
    """Windows of records at most `difference` apart."""
    return SlidingWindows(milliseconds(difference, "a window's difference"), milliseconds(grace, _GRACE))


def sessions(gap: timedelta, *, grace: timedelta = NONE) -> SessionWindows:
    """Sessions of activity, ended by more than `gap` without a record."""
    return SessionWindows(milliseconds(gap, "a session's gap"), milliseconds(grace, _GRACE))


class WindowedSerde(Generic[K]):
    """A key with its window: the key's bytes, then start and end in epoch ms, 8 bytes big-endian each."""

    def __init__(self, keys: Serde[K]) -> None:
        self.keys = key_serde(keys)

    def serialize(self, value: Windowed[K]) -> bytes:
        """The key's bytes and the window's times."""
        key, start_ms, end_ms = value
        return self.keys.serialize(key) + start_ms.to_bytes(8, "big") + end_ms.to_bytes(8, "big")

    def deserialize(self, data: bytes) -> Windowed[K]:
        """The key in its window."""
        start_ms, end_ms = int.from_bytes(data[-16:-8], "big"), int.from_bytes(data[-8:], "big")
        return Windowed(self.keys.deserialize(data[:-16]), start_ms, end_ms)


def _require(holds: bool, name: str, value: int, allowed: str) -> None:
    if not holds:
        raise InvalidWindowError(f"{name} can't be {value}: use {allowed}")
