"""Whether a store grows as it should: its rows and bytes against those of earlier days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

DAY_MS = 86_400_000
_SHORTEST_MS = 3_600_000
_FEWEST_RATES = 3


@dataclass(frozen=True, slots=True)
class Size:
    """How large a store was at a moment, epoch milliseconds."""

    at_ms: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class GrowthLimits:
    """Limits of growth: per day, and relative to the usual growth.

    Attributes:
        rows_per_day, bytes_per_day: more growth than this is always reported.
        times_usual: more than this multiple of the median of earlier days is reported, if there are enough of them.
        least_rows_per_day: less growth than this is never unusual.
    """

    rows_per_day: float
    bytes_per_day: float
    times_usual: float = 5.0
    least_rows_per_day: float = 1000.0


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth per day over the last day, the usual growth (None: too few sizes), and the exceeded limits."""

    rows_per_day: float
    bytes_per_day: float
    usual_rows_per_day: float | None
    reasons: tuple[str, ...]


def growth_of(sizes: Sequence[Size], limits: GrowthLimits) -> Growth | None:
    """Checks the newest of `sizes`, which are in the order of time. None if there is nothing to compare it with.

    Rates are taken over a day, or over a shorter time if there is no more, but at least an hour.
    """
    if not sizes:
        return None
    now = sizes[-1]
    base = _base(sizes[:-1], now)
    if base is None:
        return None
    rows, size_bytes = _rate(base.rows, now.rows, base, now), _rate(base.size_bytes, now.size_bytes, base, now)
    usual = _usual(sizes[:-1])
    reasons = []
    if rows > limits.rows_per_day:
        reasons.append(f"it grows by {rows:,.0f} rows a day, over the limit of {limits.rows_per_day:,.0f}")
    if size_bytes > limits.bytes_per_day:
        reasons.append(f"it grows by {size_bytes:,.0f} bytes a day, over the limit of {limits.bytes_per_day:,.0f}")
    if usual is not None and rows > max(limits.least_rows_per_day, limits.times_usual * max(usual, 0)):
        reasons.append(f"it grows by {rows:,.0f} rows a day, but usually by {usual:,.0f}")
    return Growth(rows, size_bytes, usual, tuple(reasons))


def _base(sizes: Sequence[Size], now: Size) -> Size | None:
    """The newest size that is a day old, else the oldest that is at least an hour old."""
    old_enough = [size for size in sizes if now.at_ms - size.at_ms >= _SHORTEST_MS]
    day_old = [size for size in old_enough if now.at_ms - size.at_ms >= DAY_MS]
    return day_old[-1] if day_old else old_enough[0] if old_enough else None


def _usual(sizes: Sequence[Size]) -> float | None:
    rates = sorted(
        _rate(base.rows, size.rows, base, size)
        for number, size in enumerate(sizes)
        if (base := _base(sizes[:number], size)) is not None
    )
    return rates[len(rates) // 2] if len(rates) >= _FEWEST_RATES else None


def _rate(before: int, after: int, base: Size, now: Size) -> float:
    return (after - before) * DAY_MS / (now.at_ms - base.at_ms)
