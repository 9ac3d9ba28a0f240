"""What happened to expired rows since their preview, from the changelog alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from state.maintenance.log_record import CleanupAction, LogRecord


class Fate(Enum):
    """The newest thing that happened to a row. A row without an entry is unchanged."""

    DELETED = auto()
    RESTORED = auto()
    TOUCHED = auto()  # by its app, before the clean-up came to it or after
    CAME_BACK = auto()  # written by its app after it was deleted


@dataclass(frozen=True, slots=True)
class Fates:
    """The fate of each key, and the keys with forbidden ones.

    `hit` are keys that their app had written before the clean-up deleted them; `foreign` are keys that the clean-up
    deleted although they weren't expired. Both are empty unless the clean-up is broken.
    """

    by_key: dict[bytes, Fate]
    hit: set[bytes]
    foreign: set[bytes]

    def count(self, fate: Fate) -> int:
        """How many keys have that fate."""
        return sum(found is fate for found in self.by_key.values())


def fates_of(keys: Collection[bytes], records: Iterable[LogRecord], cleanup_id: str) -> Fates:
    """Follows `keys` through the committed records since their preview."""
    fates = Fates({}, set(), set())
    for record in records:
        key = record.key
        if key is None:
            continue
        action = record.action_of(cleanup_id)
        if key not in keys:
            if action is not None:
                fates.foreign.add(key)
            continue
        before = fates.by_key.get(key)
        if action is CleanupAction.RESTORE:
            fates.by_key[key] = Fate.RESTORED
        elif action is CleanupAction.DELETE:
            if before in (Fate.TOUCHED, Fate.CAME_BACK):
                fates.hit.add(key)
            fates.by_key[key] = Fate.DELETED
        else:
            was_gone = before in (Fate.DELETED, Fate.CAME_BACK)
            fates.by_key[key] = Fate.CAME_BACK if was_gone else Fate.TOUCHED
    return fates
