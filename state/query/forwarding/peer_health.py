"""The health of another node: how fast it answers, and whether it should be asked last for a while."""

from __future__ import annotations

from collections import deque

from state.clock import Clock

_SAMPLES = 64
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 4.0
_MIN_HEDGE_S = 0.02
_MAX_HEDGE_S = 0.1
_HEDGE_FACTOR = 3


class PeerHealth:
    """The health of one node. Belongs to one event loop.

    A node that failed or was overtaken is suspect for a pause that doubles each time. During that pause it is asked
    last. When the pause ends, one request tries it while the others still go elsewhere. So a node that hangs delays
    one request from time to time, never all of them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latencies_s: deque[float] = deque(maxlen=_SAMPLES)
        self._p95_s = 0.0
        self._pause_s = 0.0
        self._suspect_until_s = 0.0

    @property
    def suspect(self) -> bool:
        """Whether it should be asked last."""
        return self._clock.monotonic_s() < self._suspect_until_s

    @property
    def hedge_delay_s(self) -> float:
        """How long to wait for its answer before the next node is asked too."""
        return min(_MAX_HEDGE_S, max(_MIN_HEDGE_S, _HEDGE_FACTOR * self._p95_s))

    def answered(self, latency_s: float) -> None:
        """Notes an answer with any status."""
        self._latencies_s.append(latency_s)
        ordered = sorted(self._latencies_s)
        self._p95_s = ordered[len(ordered) * 95 // 100]
        if latency_s < self.hedge_delay_s:
            self._pause_s = self._suspect_until_s = 0.0

    def failed(self) -> None:
        """Notes that it did not answer, or that a node asked later answered first."""
        now_s = self._clock.monotonic_s()
        if now_s < self._suspect_until_s:
            return
        self._pause_s = min(_LONGEST_PAUSE_S, max(_FIRST_PAUSE_S, self._pause_s * 2))
        self._suspect_until_s = now_s + self._pause_s

    def trying(self) -> None:
        """Notes that a request is about to try it after a pause: other requests go elsewhere for a moment."""
        if self._pause_s and not self.suspect:
            self._suspect_until_s = self._clock.monotonic_s() + _MAX_HEDGE_S
