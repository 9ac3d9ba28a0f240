"""Counts of the records that a table left out, by reason."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from storekeeper.names import checked_name


class DropReason(StrEnum):
    """Why an operator left a record out. Processors may have reasons of their own."""

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
        self._counts: dict[str, int] = dict.fromkeys(DropReason, 0)

    def drop(self, reason: str) -> None:
        """Counts one.

        Raises:
            InvalidNameError: a reason is a name, so that there are few of them.
        """
        if reason not in self._counts:
            self._counts[checked_name(reason)] = 0
        self._counts[reason] += 1

    def add(self, other: DroppedRecords) -> None:
        """Counts all that another has counted."""
        for reason, count in other._counts.items():
            self._counts[reason] = self._counts.get(reason, 0) + count

    def clear(self) -> None:
        """Begins at 0 again."""
        self._counts = dict.fromkeys(DropReason, 0)

    @property
    def counts(self) -> dict[str, int]:
        """A copy of the counts."""
        return self._counts.copy()

    @counts.setter
    def counts(self, counts: Mapping[str, int]) -> None:
        self._counts.clear()
        self._counts.update(counts)

    @property
    def total(self) -> int:
        """Over all reasons: Kafka's `dropped-records-total`."""
        return sum(self._counts.values())

    @property
    def by_reason(self) -> Mapping[str, int]:
        """A live, read-only view; every `DropReason` is present."""
        return MappingProxyType(self._counts)
