"""Stops an app when too large a share of its input can't be processed.

Dead letters are for single sources of invalid records, such as a broken till. A producer with a new format, or the
wrong topic, would turn a day's input into dead letters, and the app would seem to make progress.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from storekeeper.errors import ConfigurationError


class DeadLetterLimitError(ConfigurationError):
    """Too large a share of the input became dead letters. The app has stopped and a restart alone won't help."""


class _Seen(NamedTuple):
    at_s: float
    rows: int
    dead_letters: int


@dataclass(slots=True)
class DeadLetterBreaker:
    """Watches the share of dead letters in the input of the last `window_s` seconds. Not thread-safe.

    A share above `max_share` trips the breaker, unless there were fewer than `min_records` records in that time.
    """

    max_share: float
    window_s: float
    min_records: int
    _seen: deque[_Seen] = field(default_factory=lambda: deque([_Seen(0.0, 0, 0)]))

    def check(self, now_s: float, rows: int, dead_letters: int) -> None:
        """Adds the totals since the start at time `now_s`, which must not decrease, and checks the share.

        Raises:
            DeadLetterLimitError: the breaker trips.
        """
        seen = self._seen
        # Of the entries older than the window, only the newest is kept: the window begins there.
        while len(seen) > 1 and seen[1].at_s <= now_s - self.window_s:
            seen.popleft()
        seen.append(_Seen(now_s, rows, dead_letters))
        total, dead = rows - seen[0].rows, dead_letters - seen[0].dead_letters
        if total >= self.min_records and dead > self.max_share * total:
            msg = (
                f"{dead} of the last {total} records can't be processed, more than {self.max_share:.0%}: look at the "
                "dead letters' headers for the reason, correct what writes to the topic, then start the app again; "
                "to accept these dead letters, raise STOREKEEPER_MAX_DEAD_LETTER_SHARE"
            )
            raise DeadLetterLimitError(msg)
