"""Sums in panes of time, and the windows that are made of them.

A pane is as long as windows are apart. Each sale is added to one pane; a window's sum is that of its panes, so that
hopping windows cost no more state than tumbling ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec


class Sold(msgspec.Struct, array_like=True, frozen=True):
    """A sum of sales: how many, how many pieces, for how many 1/10,000 of the currency's unit."""

    sales: int = 0
    quantity: int = 0
    amount_units: int = 0

    def __add__(self, other: Sold) -> Sold:
        return Sold(self.sales + other.sales, self.quantity + other.quantity, self.amount_units + other.amount_units)


class Panes(msgspec.Struct, array_like=True):
    """An item's panes by their start, as long as a window that holds them is open; and when it is looked at next."""

    sold: dict[int, Sold] = msgspec.field(default_factory=dict)
    timer_ms: int = 0


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of one size. `advance_ms` is from one start to the next: the size itself, or a part of it."""

    store: str
    size_ms: int
    advance_ms: int

    def starts(self, time_ms: int) -> range:
        """The starts of the windows that hold `time_ms`, which is not negative; none begins before 0."""
        newest = time_ms - time_ms % self.advance_ms
        oldest = max(0, newest - self.size_ms + self.advance_ms)
        return range(oldest, newest + 1, self.advance_ms)

    def is_closed(self, start_ms: int, *, grace_ms: int, stream_time_ms: int) -> bool:
        """Whether a window takes no more sales: grace is over once stream time has reached its end."""
        return start_ms + self.size_ms + grace_ms <= stream_time_ms

    def total(self, panes: Panes, start_ms: int) -> Sold | None:
        """The sum of a window; None if nothing was sold in it."""
        total = None
        for pane_ms, sold in panes.sold.items():
            if start_ms <= pane_ms < start_ms + self.size_ms:
                total = sold if total is None else total + sold
        return total


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """All windows of the app.

    Attributes:
        kinds: the windows, each kind with its store. Their sizes are multiples of `pane_ms`, as are their advances.
        pane_ms: the length of a pane.
        grace_ms: how long after its end a window takes sales.
        retention_ms: how long after its end a window stays in its store.
    """

    kinds: tuple[Windows, ...]
    pane_ms: int
    grace_ms: int
    retention_ms: int

    @property
    def open_for_ms(self) -> int:
        """A pane's last window is closed so long after the pane's start."""
        return max(windows.size_ms for windows in self.kinds) + self.grace_ms

    def windows_at(self, time_ms: int) -> Iterator[tuple[Windows, int]]:
        """Every window that holds `time_ms`: its kind and start."""
        for windows in self.kinds:
            for start_ms in windows.starts(time_ms):
                yield windows, start_ms

    def forget(self, panes: Panes, stream_time_ms: int) -> None:
        """Takes out the panes whose windows are all closed."""
        over = [pane_ms for pane_ms in panes.sold if pane_ms + self.open_for_ms <= stream_time_ms]
        for pane_ms in over:
            del panes.sold[pane_ms]
