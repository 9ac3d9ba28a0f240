"""Decides which changelog records are not rows. Every reader of a changelog uses the one function here.

A changelog record has a key, a timestamp that is a time, and headers as `headers` describes them. Of these only
`schema-version` must be there; the others must be well-formed if they are. A tombstone needs a key and nothing else, so
that any client can write one. Every other record is skipped:

- It is not a row, and readers go on. Each reader counts it and reports its place and the reason.
- It still is the newest record of its key. Compaction may remove the older ones at any time, so a reader that kept
  the older row would differ from one that reads the log later. So the key has no row until
  the next record that isn't skipped, as after a tombstone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Protocol

from storekeeper.changelog.headers import (
    BATCH_ID,
    BATCH_TIME,
    CHANGES,
    GENERATION,
    SCHEMA_VERSION,
    SOURCE_POSITION,
    is_schema_version,
    is_source_position,
)

Headers = Sequence[tuple[str, bytes | None]]

LAST_TIMESTAMP_MS = 253_402_300_799_999
"""The end of the year 9999: neither Python nor Delta has a later time."""

_LONGEST_VALUE = 1 << 18
_NUMBER = re.compile(rb"[0-9]{1,18}")
_NO_TEXT: Headers = (("\ufffd", None),)


class SkipReason(StrEnum):
    """Why a record is skipped."""

    NULL_KEY = "null-key"
    BAD_TIMESTAMP = "bad-timestamp"
    BAD_HEADER_NAME = "bad-header-name"
    DUPLICATE_HEADER = "duplicate-header"
    NO_SCHEMA_VERSION = "no-schema-version"
    BAD_SCHEMA_VERSION = "bad-schema-version"
    BAD_GENERATION = "bad-generation"
    BAD_BATCH_ID = "bad-batch-id"
    BAD_BATCH_TIME = "bad-batch-time"
    BAD_CHANGES = "bad-changes"
    BAD_SOURCE_POSITION = "bad-source-position"


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """Where a skipped record is, and why it was skipped. Nothing of its content."""

    offset: int
    timestamp_ms: int
    reason: SkipReason


@dataclass(frozen=True, slots=True)
class SkippedTotals:
    """The skipped records of one partition: how many by reason, and the offset of the last one, None if none was."""

    by_reason: Mapping[str, int] = field(default_factory=dict)
    last_offset: int | None = None

    @property
    def records(self) -> int:
        """How many were skipped."""
        return sum(self.by_reason.values())

    def plus(self, skipped: Sequence[SkippedRecord]) -> SkippedTotals:
        """The totals with more records, which follow in the log."""
        if not skipped:
            return self
        counts = Counter(record.reason.value for record in skipped)
        return SkippedTotals(dict(Counter(self.by_reason) + counts), skipped[-1].offset)


class HasHeaders(Protocol):
    """A record as the Kafka client hands it out."""

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Its headers, None if there are none."""
        ...


def skip_reason(key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> SkipReason | None:
    """Why a record is skipped; None if it is a row or a tombstone."""
    if key is None:
        return SkipReason.NULL_KEY
    if value is None:
        return None
    if not 0 <= timestamp_ms <= LAST_TIMESTAMP_MS:
        return SkipReason.BAD_TIMESTAMP
    return _header_reason(tuple(headers))


def headers_of(record: HasHeaders) -> Headers:
    """The headers of a record. If the client can't decode a name (no UTF-8), returns one invalid name instead.

    Ask once for each record: after it has failed, the client's own list is broken.
    """
    try:
        return record.headers() or ()
    except (UnicodeDecodeError, SystemError):
        return _NO_TEXT


# The records of a batch have the same headers.
@lru_cache(maxsize=16)
def _header_reason(headers: tuple[tuple[str, bytes | None], ...]) -> SkipReason | None:
    seen: list[str] = []
    for name, value in headers:
        if name not in _CHECKS:
            if not name.isascii():
                return SkipReason.BAD_HEADER_NAME
        elif name in seen:
            return SkipReason.DUPLICATE_HEADER
        elif value is None or len(value) > _LONGEST_VALUE or not _CHECKS[name](value):
            return SkipReason(f"bad-{name}")
        else:
            seen.append(name)
    return None if SCHEMA_VERSION in seen else SkipReason.NO_SCHEMA_VERSION


def _is_number(value: bytes) -> bool:
    return _NUMBER.fullmatch(value) is not None


_CHECKS: Mapping[str, Callable[[bytes], bool]] = MappingProxyType(
    {
        SCHEMA_VERSION: is_schema_version,
        GENERATION: _is_number,
        BATCH_ID: _is_number,
        BATCH_TIME: _is_number,
        CHANGES: _is_number,
        SOURCE_POSITION: is_source_position,
    }
)
