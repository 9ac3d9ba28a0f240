"""The records that a history lacks: those of its changelog up to the exact end of a batch, and whether all are there.

Compaction removes records before they are read, and its lag is by event time: it guarantees nothing. So the last change
of each batch says how many there were (`changelog.headers`). Records that no batch wrote are not counted: those of
clean-ups and of other programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from storekeeper.changelog.headers import BATCH_ID, BATCH_TIME, CHANGES, GENERATION, SCHEMA_VERSION
from storekeeper.changelog.log_record import CLEANUP, Headers
from storekeeper.changelog.scan import Changelog
from storekeeper.clock import DAY_MS
from storekeeper.engine.runtime.checkpoint import CommittedBatch
from storekeeper.snapshots.columns import ReadFields, derived_columns
from storekeeper.snapshots.history import history_schema

_BATCH_ROWS = 16_384
_MOST_DIGITS = 18


class Mark(NamedTuple):
    """What the headers of a record say; None for what they don't."""

    by_cleanup: bool
    schema_version: int | None = None
    generation: int | None = None
    batch: int | None = None
    at_ms: int | None = None
    changes: int | None = None

    @classmethod
    def of(cls, headers: Headers) -> Mark:
        """What these headers say."""
        found = dict(headers)
        numbers = (_number(found.get(name)) for name in (SCHEMA_VERSION, GENERATION, BATCH_ID, BATCH_TIME, CHANGES))
        return cls(CLEANUP in found, *numbers)

    def is_of_batch(self, generation: int) -> bool:
        """Whether a batch of that generation wrote it."""
        return self.generation == generation and self.batch is not None and not self.by_cleanup


def _number(value: bytes | None) -> int | None:
    """A number of a header. A tombstone may have any headers."""
    return int(value) if value and len(value) <= _MOST_DIGITS and value.isdigit() else None


@dataclass
class NewChanges:
    """One pass over the changes up to a batch. Its attributes are whole once `rows` is read to its end.

    Attributes:
        log: the changelog.
        batch: the last batch to read; records of later ones end a partition.
        ends: by partition, the end of what is committed.
        planned: the app's newest planned batch by generation, read after these ends: every batch with records before
            them is planned by then. A record of any other batch is a row, and ends nothing.
        first: by partition, where the log begins. A pass from there on may lack the last changes, too: deletions are
            gone from an old log. It is whole only if each offset was taken.
        offsets: by partition, where to begin; afterwards the offset that was reached.
        totals: by partition, how many changes batches had written there before; afterwards with those read.
        earliest_ms, latest_ms: the times that records of batches get which have an earlier or a later one.
        until_ms: the time that other records get which have a later one.
        complete_ms: the time up to which all changes are there; the end of the pass unless some are missing.
        hides: by partition with missing changes, the offset up to which later ones may have replaced them.
        first_ms: the earliest time of a record; `latest_ms` if there is none.
        count: how many records were read.
    """

    log: Changelog
    batch: CommittedBatch
    planned: Mapping[int, int]
    ends: Mapping[int, int]
    first: Mapping[int, int]
    offsets: dict[int, int]
    totals: dict[int, int]
    earliest_ms: int
    latest_ms: int
    until_ms: int
    hides: dict[int, int] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        self.complete_ms = self.first_ms = self.latest_ms

    def rows(self, columns: Mapping[str, str], read: ReadFields) -> Iterator[pa.RecordBatch]:
        """The records as rows of the history, `columns` being those that follow from values."""
        schema = history_schema(columns)
        for partition, end in self.ends.items():
            rows: list[tuple[object, ...]] = []
            for row in self._of_partition(partition, end):
                rows.append(row)
                if len(rows) == _BATCH_ROWS:
                    yield _as_columns(rows, columns, read, schema)
                    rows.clear()
            if rows:
                yield _as_columns(rows, columns, read, schema)

    def _of_partition(self, partition: int, end: int) -> Iterator[tuple[object, ...]]:
        found = _Completeness(self.totals.get(partition, 0), self.earliest_ms - 1)
        mark, headers, at_ms = _NONE, _NO_HEADERS, self.earliest_ms or self.latest_ms
        start, self.offsets[partition] = self.offsets[partition], end
        is_later = is_of_batch = False
        for record in self.log.scan(partition, start, end):
            if record.headers != headers:
                headers, mark = record.headers, Mark.of(record.headers)
                is_of_batch = mark.is_of_batch(self.batch.generation)
                at_ms = self._time(mark, at_ms)
            if not is_later and self._is_later(mark):
                is_later = True  # reads on to the count that says whether the batches before are whole
                self.offsets[partition], self.totals[partition] = record.offset, found.seen
                found.is_counted = False
            if is_of_batch:
                found.note(mark.changes, at_ms)
            if is_later and found.is_counted:
                break
            if not is_later:
                self.count += 1
                found.offsets += 1 + (is_of_batch and mark.changes is not None)
                self.first_ms = min(self.first_ms, at_ms)
                place = record.key, record.value, partition, record.offset, record.timestamp_ms
                yield *place, mark.schema_version, mark.generation, mark.batch, at_ms, at_ms // DAY_MS
        if not is_later:
            self.totals[partition] = found.seen
        if start == self.first.get(partition) and self.offsets[partition] - start > found.offsets:
            found.is_whole, found.complete_ms = False, self.earliest_ms - 1
        if not (found.is_whole and found.is_counted):
            self.complete_ms = min(self.complete_ms, found.complete_ms)
            self.hides[partition] = self.log.stable_end(partition)

    def _time(self, mark: Mark, before_ms: int) -> int:
        """The time of a record; that of the one before it if it has none."""
        if mark.at_ms is None:
            return before_ms
        last_ms = self.latest_ms if mark.is_of_batch(self.batch.generation) else self.until_ms
        return max(min(mark.at_ms, last_ms), self.earliest_ms)

    def _is_later(self, mark: Mark) -> bool:
        if mark.generation is None or mark.batch is None or mark.generation < self.batch.generation:
            return False
        first = self.batch.batch_id + 1 if mark.generation == self.batch.generation else 0
        return first <= mark.batch <= self.planned.get(mark.generation, -1)


_NONE = Mark(by_cleanup=False)
_NO_HEADERS: Headers = ()


@dataclass(slots=True)
class _Completeness:
    """Whether all changes of batches are there.

    Attributes:
        seen: how many the generation has written, as far as is known.
        complete_ms: the time up to which all are there.
        is_whole: whether none was missing at a count.
        is_counted: whether a count came after the last one.
        offsets: how many offsets the records took, and the marks of the transactions of batches.
    """

    seen: int
    complete_ms: int
    is_whole: bool = True
    is_counted: bool = True
    offsets: int = 0

    def note(self, changes: int | None, at_ms: int) -> None:
        """Takes the next change, and the number up to it if it has a count."""
        self.seen += 1
        self.is_counted = changes is not None
        if changes is not None:
            self.is_whole = self.is_whole and self.seen >= changes
            self.seen = changes
            if self.is_whole:
                self.complete_ms = at_ms


def _as_columns(
    rows: Sequence[tuple[object, ...]], columns: Mapping[str, str], read: ReadFields, schema: pa.Schema
) -> pa.RecordBatch:
    own = list(zip(*rows, strict=True))
    kinds = schema.types[len(columns) :]
    arrays = [pa.array(cells, kind) for cells, kind in zip(own[:-1], kinds[:-1], strict=True)]
    days = pa.array(own[-1], pa.int32()).view(kinds[-1])
    return pa.record_batch([*derived_columns(own[1], columns, read), *arrays, days], schema=schema)
