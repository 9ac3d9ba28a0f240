"""What happened to expired rows since their preview, from the changelog alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from storekeeper.changelog.log_record import CleanupAction, LogRecord


class RowOutcome(Enum):
    """The newest thing that happened to a row. A row without an entry is unchanged."""

    DELETED = auto()
    RESTORED = auto()
    TOUCHED = auto()  # by its app, before the clean-up came to it or after
    CAME_BACK = auto()  # written by its app after it was deleted


@dataclass(frozen=True, slots=True)
class CleanupOutcome:
    """The outcome of each key, and the keys with forbidden ones.

    `hit` are keys that their app had written before the clean-up deleted them; `foreign` are keys that the clean-up
    deleted although they weren't expired. Both are empty unless the clean-up is broken.
    """

    by_key: dict[bytes, RowOutcome]
    hit: set[bytes]
    foreign: set[bytes]

    def count(self, outcome: RowOutcome) -> int:
        """How many keys have that outcome."""
        return sum(one is outcome for one in self.by_key.values())


def cleanup_outcome(keys: Collection[bytes], records: Iterable[LogRecord], cleanup_id: str) -> CleanupOutcome:
    """Follows `keys` through the committed records since their preview."""
    found = CleanupOutcome({}, set(), set())
    for record in records:
        key = record.key
        if key is None:
            continue
        action = record.action_of(cleanup_id)
        if key not in keys:
            if action is not None:
                found.foreign.add(key)
            continue
        before = found.by_key.get(key)
        if action is CleanupAction.RESTORE:
            found.by_key[key] = RowOutcome.RESTORED
        elif action is CleanupAction.DELETE:
            if before in (RowOutcome.TOUCHED, RowOutcome.CAME_BACK):
                found.hit.add(key)
            found.by_key[key] = RowOutcome.DELETED
        else:
            was_gone = before in (RowOutcome.DELETED, RowOutcome.CAME_BACK)
            found.by_key[key] = RowOutcome.CAME_BACK if was_gone else RowOutcome.TOUCHED
    return found
