"""Writing a record only if nobody else has written its key since: compare-and-write on a log that can't compare.

Kafka appends whatever it is given, so a tombstone for a row that its app refreshes at that moment would hide the
refreshed row. But Kafka has transactions, whose records get their offsets before anybody sees them:

1. Append the records in a transaction. Each has its final offset now, but is invisible.
2. Read everything in front of them, open transactions of others included.
3. A key that somebody wrote in front of our record: the comparison fails. Abort: nothing was ever visible. Begin again
   without those keys.
4. No such key: commit. Whatever was written behind our records replaces them, as it should.

So a record becomes visible if, and only if, no record of its key is in front of it that the caller didn't know of. No
lock, no pause of the app, no repair afterwards. A crash leaves an open transaction, which the broker or the next run
aborts. Foreign records whose own transaction is aborted later count as written: that errs on the safe side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from storekeeper.changelog.log_record import LogRecord


class TentativeLog(Protocol):
    """One partition of a log, written in transactions by us and by others."""

    def append(self, records: Sequence[LogRecord]) -> list[int]:
        """Begins a transaction, appends, and returns the offsets that the records got. Nobody sees them yet."""
        ...

    def commit(self) -> None:
        """Makes what was appended visible, all at once."""
        ...

    def abort(self) -> None:
        """Discards what was appended: it never becomes visible."""
        ...

    def read_to(self, end: int) -> Iterable[LogRecord]:
        """Every record from where the call before ended up to `end` (exclusive): open and aborted ones included."""
        ...


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write: how many records are written, and the keys of those that are not."""

    records: int
    touched: frozenset[bytes]


@dataclass(slots=True)
class ConditionalWriter:
    """Writes to one partition. Not thread-safe.

    Attributes:
        log: the partition; its next read starts at the offset up to which the caller has read it.
        is_own: whether a record is this writer's own, such as one of an aborted attempt.
        touched: keys that others have written, each with the last offset.
    """

    log: TentativeLog
    is_own: Callable[[LogRecord], bool]
    touched: dict[bytes, int] = field(default_factory=dict)

    def write(self, records: Sequence[LogRecord]) -> Written:
        """Writes the records whose keys nobody else has written; returns once they are visible."""
        skipped: set[bytes] = set()
        left = list(records)
        while True:
            skipped |= {_key(record) for record in left if _key(record) in self.touched}
            left = [record for record in left if _key(record) not in skipped]
            if not left:
                return Written(0, frozenset(skipped))
            if self._written(left):
                return Written(len(left), frozenset(skipped))

    def _written(self, records: Sequence[LogRecord]) -> bool:
        try:
            offsets = self.log.append(records)
            places = {_key(record): offset for record, offset in zip(records, offsets, strict=True)}
            hit = self._observe(max(offsets) + 1, places)
        except BaseException:
            self.log.abort()
            raise
        if hit:
            self.log.abort()
            return False
        self.log.commit()
        return True

    def _observe(self, end: int, places: Mapping[bytes, int]) -> bool:
        """Notes what others wrote below `end`. Returns whether any of it is in front of our record of the same key."""
        hit = False
        for record in self.log.read_to(end):
            if record.key is None or self.is_own(record):
                continue
            self.touched[record.key] = record.offset
            hit = hit or record.offset < places.get(record.key, -1)
        return hit


def _key(record: LogRecord) -> bytes:
    assert record.key is not None, "rows have keys"  # noqa: S101 (a mistake of ours, not of anybody's data)
    return record.key
