"""Which records of two streams meet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from storekeeper.errors import ConfigurationError, InvalidWindowError
from storekeeper.topology.store import milliseconds

_BEFORE, _AFTER, _GRACE = ("a join window's before", "a join window's after", "a join window's grace")


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """A left record at t meets the right records from t - before to t + after, both ends included.

    Attributes:
        before_ms: how much earlier the right record may be.
        after_ms: how much later it may be.
        grace_ms: how long after the window's end a record without a partner still waits for one that is late.
        interval: an interval join: a record looks back only, and one without a partner goes out at once.

    Raises:
        ConfigurationError: a time is no whole number.
        InvalidWindowError: the window is empty, or the grace is negative or, for intervals, too short.
    """

    before_ms: int
    after_ms: int
    grace_ms: int = 0
    interval: bool = False

    def __post_init__(self) -> None:
        times: tuple[object, ...] = (self.before_ms, self.after_ms, self.grace_ms)
        if not all(isinstance(time, int) for time in times):
            msg = f"a join window has whole milliseconds, not {times}: use JoinWindows.of(...) or between(...)"
            raise ConfigurationError(msg)
        if self.before_ms + self.after_ms < 0 or self.grace_ms < 0:
            raise InvalidWindowError("a join window must not end before it begins, and its grace can't be negative")
        if self.interval and (self.before_ms < 0 or self.after_ms < 0):
            raise InvalidWindowError("the ends of an interval can't be negative: a record looks back only")
        if self.interval and max(self.before_ms, self.after_ms) > self.grace_ms:
            msg = f"the interval reaches further than its grace of {self.grace_ms} ms: raise the grace"
            raise InvalidWindowError(msg)

    @classmethod
    def of(cls, difference: timedelta, *, grace: timedelta = timedelta()) -> Self:
        """The right record may be earlier or later by `difference`."""
        size_ms = milliseconds(difference, "a join window's difference")
        return cls(size_ms, size_ms, milliseconds(grace, _GRACE))

    @classmethod
    def between(cls, *, before: timedelta, after: timedelta, grace: timedelta = timedelta()) -> Self:
        """The right record may be earlier by `before` and later by `after`."""
        return cls(milliseconds(before, _BEFORE), milliseconds(after, _AFTER), milliseconds(grace, _GRACE))

    @classmethod
    def looking_back(cls, *, before: timedelta, after: timedelta, grace: timedelta) -> Self:
        """An interval join: a left record looks back by `before`, a right one by `after`."""
        ends = (milliseconds(before, _BEFORE), milliseconds(after, _AFTER))
        return cls(*ends, milliseconds(grace, _GRACE), interval=True)

    @property
    def retention_ms(self) -> int:
        """How long a record is kept for partners that are late."""
        return max(1, self.before_ms + self.after_ms + self.grace_ms)

    def closes_after_ms(self, *, left: bool) -> int:
        """How long after a record its last possible partner may come."""
        return (self.after_ms if left else self.before_ms) + self.grace_ms

    def partners_of(self, timestamp_ms: int, *, left: bool) -> tuple[int, int]:
        """The first and last time at which a record's partners may be."""
        back_ms, ahead_ms = (self.before_ms, self.after_ms) if left else (self.after_ms, self.before_ms)
        return max(0, timestamp_ms - back_ms), timestamp_ms + (0 if self.interval else ahead_ms)
