"""Finds the expired rows of a store: a fold of one changelog partition that keeps these rows complete.

A row's age counts from the timestamp of its newest record, so from when its app last wrote it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from storekeeper.changelog.log_record import LogRecord
from storekeeper.clock import DAY_MS

AGE_LIMITS_DAYS = (1, 7, 30, 90, 180, 365, 730)
"""Where the histogram's classes end: below a day, below a week, and so on; the last class is open."""


@dataclass(frozen=True, slots=True)
class AgeClass:
    """The rows whose age is below `below_days` and not below that of the class before; None: no limit."""

    below_days: int | None
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PartitionContent:
    """What a partition holds. `expired` are the newest records of the expired rows, by offset."""

    rows: int
    size_bytes: int
    ages: tuple[AgeClass, ...]
    expired: list[LogRecord]


def content_of(records: Iterable[LogRecord], *, cutoff_ms: int, now_ms: int) -> PartitionContent:
    """Folds a partition. A row is expired if its newest record is older than `cutoff_ms`.

    Keeps a few words for each row and the expired rows themselves in memory.
    """
    newest: dict[bytes, tuple[int, int]] = {}
    expired: dict[bytes, LogRecord] = {}
    for record in records:
        key = record.key
        if key is None:
            continue
        if record.value is None:
            newest.pop(key, None)
            expired.pop(key, None)
        else:
            newest[key] = record.timestamp_ms, len(key) + len(record.value)
            if record.timestamp_ms < cutoff_ms:
                expired[key] = record
            else:
                expired.pop(key, None)
    ordered = sorted(expired.values(), key=lambda record: record.offset)
    size_bytes = sum(size for _, size in newest.values())
    return PartitionContent(len(newest), size_bytes, _ages(newest.values(), now_ms), ordered)


def added(left: Iterable[AgeClass], right: Iterable[AgeClass]) -> tuple[AgeClass, ...]:
    """The histogram of both."""
    return tuple(
        AgeClass(one.below_days, one.rows + other.rows, one.size_bytes + other.size_bytes)
        for one, other in zip(left, right, strict=True)
    )


def no_ages() -> tuple[AgeClass, ...]:
    """An empty histogram."""
    return tuple(AgeClass(days, 0, 0) for days in (*AGE_LIMITS_DAYS, None))


def _ages(rows: Iterable[tuple[int, int]], now_ms: int) -> tuple[AgeClass, ...]:
    limits = [days * DAY_MS for days in AGE_LIMITS_DAYS]
    counts, sizes = [0] * (len(limits) + 1), [0] * (len(limits) + 1)
    for timestamp_ms, size in rows:
        place = bisect_right(limits, now_ms - timestamp_ms)
        counts[place] += 1
        sizes[place] += size
    return tuple(map(AgeClass, (*AGE_LIMITS_DAYS, None), counts, sizes))
