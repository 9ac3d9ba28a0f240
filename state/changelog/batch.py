"""Records of one changelog partition, and what is left of them to write: the last value of each key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from state.changelog.headers import SCHEMA_VERSION, SourceRanges, schema_version_of, source_ranges_of
from state.changelog.skipped import LAST_TIMESTAMP_MS, Headers, SkippedRecord, headers_of, skip_reason
from state.stores.bytes_store import Entry
from state.stores.row import encode_row

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
        entries: one entry per key, rows encoded, by key as an ordered store likes to get them.
        skipped: the records that are no rows, in log order.
        source: the input range of the newest record that names one: those of a clean-up don't.
    """

    entries: list[Entry]
    skipped: list[SkippedRecord]
    source: SourceRanges | None


def fold(messages: Sequence[ChangelogMessage]) -> FoldedBatch:
    """Keeps the last record of each key, in log order whatever the timestamps say, and encodes it as a row.

    A record that is skipped leaves no row at its key: see `skipped`.
    """
    last: dict[bytes, tuple[ChangelogMessage, Headers] | None] = {}
    skipped: list[SkippedRecord] = []
    runs: list[Headers] = []
    good: Headers | None = None
    for message in messages:
        key, headers, timestamp_ms = message.key(), headers_of(message), message.timestamp()[1]
        # The records of a batch have the same headers: what was found of the first one holds for the next ones.
        if key is not None and headers == good and 0 <= timestamp_ms <= LAST_TIMESTAMP_MS:
            last[key] = message, headers
            continue
        value = message.value()
        reason = skip_reason(key, value, timestamp_ms, headers)
        if reason is not None:
            skipped.append(SkippedRecord(message.offset(), timestamp_ms, reason))
        else:
            runs.append(headers)
            good = None if value is None else headers
        if key is not None:
            last[key] = None if reason is not None else (message, headers)
    return FoldedBatch([(key, _row(last[key])) for key in sorted(last)], skipped, _newest_source(runs))


def _row(newest: tuple[ChangelogMessage, Headers] | None) -> bytes | None:
    if newest is None:
        return None
    message, headers = newest
    value = message.value()
    if value is None:
        return None
    version = 1 if headers[0] == _FIRST_VERSION else schema_version_of(headers)
    return encode_row(value, schema_version=version, timestamp_ms=message.timestamp()[1])


def _newest_source(runs: Sequence[Headers]) -> SourceRanges | None:
    for headers in reversed(runs):
        source = source_ranges_of(headers)
        if source is not None:
            return source
    return None
