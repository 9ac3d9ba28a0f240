"""A rate limit: how long to wait before the next piece of work may begin."""

from __future__ import annotations

from collections.abc import Callable

from state.clock import Clock


class Pace:
    """At most `per_s` units a second on average, in pieces. Not thread-safe.

    Args:
        per_s: units a second, above 0.
        clock: for the time between pieces.
        wait: waits for a number of seconds.
    """

    def __init__(self, per_s: float, clock: Clock, wait: Callable[[float], object]) -> None:
        self._per_s = per_s
        self._clock = clock
        self._wait = wait
        self._free_at_s = clock.monotonic_s()

    def take(self, units: int) -> None:
        """Waits until the time for the earlier pieces has passed, then counts `units`."""
        now_s = self._clock.monotonic_s()
        if self._free_at_s > now_s:
            self._wait(self._free_at_s - now_s)
        self._free_at_s = max(self._free_at_s, now_s) + units / self._per_s
