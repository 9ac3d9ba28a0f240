"""Counts of the records that a table left out, by reason."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class DropReason(StrEnum):
    """Why a record was left out. The values serve as metric labels."""

    NULL_KEY = "null-key"
    NULL_VALUE = "null-value"
    EXPIRED_WINDOW = "expired-window"


class DroppedRecords:
    """How many records were left out, and why. Not thread-safe.

    A record that is late for one of its hopping windows and in time for the next counts once for each window that
    it missed.
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts = dict.fromkeys(DropReason, 0)

    def drop(self, reason: DropReason) -> None:
        """Counts one."""
        self._counts[reason] += 1

    def add(self, other: DroppedRecords) -> None:
        """Counts all that another has counted."""
        for reason, count in other._counts.items():
            self._counts[reason] += count

    def clear(self) -> None:
        """Begins at 0 again."""
        self._counts.update(dict.fromkeys(DropReason, 0))

    @property
    def total(self) -> int:
        """Over all reasons: Kafka's `dropped-records-total`."""
        return sum(self._counts.values())

    @property
    def by_reason(self) -> Mapping[DropReason, int]:
        """A live, read-only view; every reason is present."""
        return MappingProxyType(self._counts)
