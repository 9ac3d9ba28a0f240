"""When the timers by the wall clock of an app's tasks are due, as far as its last batch has reported.

A timer fires in a batch. So where there are such timers, all tasks that may have one take part in each batch, and a
batch without records is run when nothing else is. What runs no processor learns nothing here, and has no such batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from storekeeper.engine.runtime.sink_metrics import Written

_AT_ONCE_MS = 1000
"""Timers that are due within that time fire together: the tasks of a batch don't run at the same moment."""
_LEAST_S = 1.0


@dataclass
class WallTimers:
    """Not thread-safe: the thread that runs an app's batches calls it.

    Attributes:
        possible: the numbers of the sub-topologies whose tasks may have timers.
        subs: of those, the ones whose tasks take part in the next batch, with or without records: all until a batch
            has reported which of them have timers by the wall clock.
    """

    possible: frozenset[int]
    subs: frozenset[int] = field(init=False)
    _due_s: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._ask()

    def due(self) -> bool:
        """Whether a batch is to run, though no records wait."""
        return self._due_s is not None and time.monotonic() >= self._due_s

    def learn(self, outcomes: Iterable[Written], began_s: float) -> None:
        """Takes what the tasks of a batch know of their timers; `began_s` is when the batch began, in monotonic time.

        The next batch without records begins a second after that, at the earliest.
        """
        outcomes = list(outcomes)
        if any(outcome.replayed_tasks for outcome in outcomes):  # these have run no processor
            self._ask()
            return
        timers = [outcome.timer for outcome in outcomes if outcome.timer is not None]
        self.subs, self._due_s = frozenset(sub for sub, _ in timers), None
        if timers:
            first_ms = min(due_ms for _, due_ms in timers)
            last_ms = max(due_ms for _, due_ms in timers if due_ms <= first_ms + _AT_ONCE_MS)
            self._due_s = max(time.monotonic() + last_ms / 1000, began_s + _LEAST_S)

    def _ask(self) -> None:
        """Lets all that may have timers take part in the next batch, which is due now."""
        self.subs, self._due_s = self.possible, time.monotonic() if self.possible else None
