"""Time as a value that is passed in, so that logic and tests never read the wall clock themselves."""

from __future__ import annotations

import time
from typing import Protocol

DAY_MS = 86_400_000
DATE_DIGITS = len("20260131")
"""A number of eight digits may be a day in ISO 8601 or a moment of 1970 in milliseconds. It is refused as a time."""


class Clock(Protocol):
    """The source of time, for everything that decides by time. Implementations say whether they are thread-safe."""

    def now_ms(self) -> int:
        """Wall-clock time, epoch milliseconds. May jump; use it for stamps, not for durations."""
        ...

    def monotonic_s(self) -> float:
        """Seconds from an arbitrary start that never go back, sleep included. Use it for durations and time-outs."""
        ...


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""On Linux, CLOCK_MONOTONIC stands still while the machine sleeps. Elsewhere it runs on."""


class SystemClock:
    """The machine's clocks. Thread-safe."""

    def now_ms(self) -> int:
        """Wall-clock time, epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds from an arbitrary start that never go back. The time that the machine sleeps counts."""
        return time.clock_gettime(_STEADY)


class ManualClock:
    """A clock that moves only when it is advanced: for tests and for replays. Not thread-safe."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """The time set last, epoch milliseconds."""
        return self._now_ms

    def monotonic_s(self) -> float:
        """The same time in seconds."""
        return self._now_ms / 1000

    def advance(self, milliseconds: int) -> None:
        """Moves time forward by `milliseconds`, which must not be negative."""
        if milliseconds < 0:
            raise ValueError(f"a clock can't go back by {-milliseconds} ms")
        self._now_ms += milliseconds
