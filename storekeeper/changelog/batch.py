"""Records of one changelog partition, reduced to the last value of each key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from storekeeper.changelog.headers import SCHEMA_VERSION, SourceRanges, schema_version_of, source_ranges_of
from storekeeper.changelog.skipped import LAST_TIMESTAMP_MS, Headers, SkippedRecord, SkipReason, headers_of, skip_reason
from storekeeper.stores.bytes_store import Entry
from storekeeper.stores.row import encode_row

_FIRST_VERSION = (SCHEMA_VERSION, b"1")


class ChangelogMessage(Protocol):
    """A record as the Kafka client hands it out. A tombstone is falsy there: compare with None."""

    def key(self) -> bytes | None:
        """The store key."""
        ...

    def value(self) -> bytes | None:
        """The store value, None for a deletion."""
        ...

    def offset(self) -> int:
        """Its offset."""
        ...

    def timestamp(self) -> tuple[int, int]:
        """(kind, epoch milliseconds)."""
        ...

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Its headers, None if there are none."""
        ...

    def set_headers(self, headers: Headers) -> None:
        """Replaces its headers."""
        ...


@dataclass(frozen=True, slots=True)
class PartitionBatch:
    """What one read brought from one partition.

    Attributes:
        topic, partition: where from.
        messages: the records, by offset.
        next_offset: the reader's position behind them: past gaps at the end of the log too.
        end_reached: whether that position was the end of the log when it was read.
        moved: why the partition can't be read on from here, None if it can.
    """

    topic: str
    partition: int
    messages: Sequence[ChangelogMessage]
    next_offset: int
    end_reached: bool
    moved: str | None = None


@dataclass(frozen=True, slots=True)
class FoldedBatch:
    """A batch ready to be written.

    Attributes:
        entries: one entry per key, rows encoded, sorted by key for ordered stores.
        skipped: the records that are not rows, in log order.
        source: the input range of the newest record that has one: clean-up records have none.
    """

    entries: list[Entry]
    skipped: list[SkippedRecord]
    source: SourceRanges | None


def fold(messages: Sequence[ChangelogMessage]) -> FoldedBatch:
    """Keeps the last record of each key, in log order whatever the timestamps say, and encodes it as a row.

    A record that is skipped leaves no row at its key: see `skipped`.
    """
    records = _Records(messages)
    last: dict[bytes, int | None] = {}
    skipped: list[SkippedRecord] = []
    sources: list[Headers] = []
    for run in records.runs():
        if records.are_rows(run):
            last.update(zip(records.keys[run.start : run.stop], run, strict=True))  # type: ignore[arg-type]
            sources.append(records.headers[run.start])
            continue
        for number in run:
            key, reason = records.keys[number], records.skip_reason(number)
            if reason is None:
                sources.append(records.headers[number])
            else:
                skipped.append(SkippedRecord(messages[number].offset(), records.times_ms[number], reason))
            if key is not None:
                last[key] = number if reason is None else None
    return FoldedBatch([(key, records.row(last[key])) for key in sorted(last)], skipped, _newest_source(sources))


class _Records:
    """Records of one partition by number. Each part of a record is read only once, as reads are most of the work."""

    def __init__(self, messages: Sequence[ChangelogMessage]) -> None:
        self._messages = messages
        self.keys = [message.key() for message in messages]
        self.times_ms = [message.timestamp()[1] for message in messages]
        self.headers = _shared_headers(messages)

    def runs(self) -> Iterator[range]:
        """Runs of consecutive records with the same headers, such as those of one batch of an app."""
        start = 0
        for _, run in groupby(self.headers):
            stop = start + len(list(run))
            yield range(start, stop)
            start = stop

    def are_rows(self, run: range) -> bool:
        """Whether no record of a run is skipped. The run is checked as a whole, as the headers are the same."""
        times_ms = self.times_ms[run.start : run.stop]
        return (
            None not in self.keys[run.start : run.stop]
            and skip_reason(b"", b"", min(times_ms), self.headers[run.start]) is None
            and max(times_ms) <= LAST_TIMESTAMP_MS
        )

    def skip_reason(self, number: int) -> SkipReason | None:
        """Why a record is skipped; None if it is a row or a tombstone."""
        return skip_reason(
            self.keys[number], self._messages[number].value(), self.times_ms[number], self.headers[number]
        )

    def row(self, number: int | None) -> bytes | None:
        """The row that a record leaves; None for a tombstone, or for no record."""
        value = None if number is None else self._messages[number].value()
        if number is None or value is None:
            return None
        headers = self.headers[number]
        version = 1 if headers[0] == _FIRST_VERSION else schema_version_of(headers)
        return encode_row(value, schema_version=version, timestamp_ms=self.times_ms[number])


def _shared_headers(messages: Sequence[ChangelogMessage]) -> list[Headers]:
    """The headers of each record: one list for all that follow one another and have the same."""
    # A message keeps its own headers, over a kilobyte. Sharing the list made restores of two million records
    # 19 percent faster, through less CPU time and less memory touched.
    newest: list[Headers] = []
    shared: Headers = ()
    for message in messages:
        headers = headers_of(message)
        if headers == shared:
            message.set_headers(shared)
        else:
            shared = headers
        newest.append(shared)
    return newest


def _newest_source(batches: Sequence[Headers]) -> SourceRanges | None:
    for headers in reversed(batches):
        source = source_ranges_of(headers)
        if source is not None:
            return source
    return None
