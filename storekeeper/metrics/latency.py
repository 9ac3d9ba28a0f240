"""A latency histogram for hot paths: one list index and two additions per observation, no lock, no sampling.

Buckets are powers of two of a nanosecond, so that finding the bucket is `int.bit_length`. A collector turns them into
a Prometheus histogram in seconds when it is scraped. Under many threads an increment may be lost now and then.
"""

from __future__ import annotations

_BUCKETS = 44  # 2^43 ns is 2.4 hours


class LatencyRecorder:
    """Counts observations by the power of two that they stay below.

    Attributes:
        counts: `counts[n]` observations took less than 2^n nanoseconds and at least 2^(n-1).
        total_ns: the sum of all observations, nanoseconds.
    """

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * _BUCKETS
        self.total_ns = 0

    def record(self, elapsed_ns: int) -> None:
        """Counts one observation; negative ones, from a clock that jumped, count as 0."""
        elapsed_ns = max(elapsed_ns, 0)
        self.counts[min(elapsed_ns.bit_length(), _BUCKETS - 1)] += 1
        self.total_ns += elapsed_ns

    @property
    def count(self) -> int:
        """How many observations there were."""
        return sum(self.counts)

    def cumulative(self) -> list[tuple[float, int]]:
        """(upper bound in seconds, observations at or below it) from 2^9 ns up; the last bound is infinity."""
        result: list[tuple[float, int]] = []
        seen = sum(self.counts[:9])
        for power in range(9, _BUCKETS):
            seen += self.counts[power]
            result.append((2**power / 1e9, seen))
        result[-1] = (float("inf"), seen)
        return result
