"""Records of one changelog partition, and what is left of them to write: the last value of each key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from state.changelog.headers import SCHEMA_VERSION, schema_version_of
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
    """A batch ready to be written: one entry per key, rows encoded, by key as an ordered store likes to get them."""

    entries: list[Entry]
    null_keys: int


def fold(messages: Sequence[ChangelogMessage]) -> FoldedBatch:
    """Keeps the last record of each key, in log order whatever the timestamps say, and encodes it as a row.

    Records without a key belong to no row: they are counted and left out.

    Raises:
        ChangelogError: if a record that counts has no schema version: it was not written as a changelog record.
    """
    last = {message.key(): message for message in messages}
    null_keys = 0
    if None in last:
        del last[None]
        null_keys = sum(message.key() is None for message in messages)
    entries: list[Entry] = []
    for key in sorted(last):  # type: ignore[type-var]
        message = last[key]
        headers = message.headers()
        version = 1 if headers and headers[0] == _FIRST_VERSION else schema_version_of(headers)
        value = message.value()
        row = None if value is None else encode_row(value, schema_version=version, timestamp_ms=message.timestamp()[1])
        entries.append((key, row))  # type: ignore[arg-type]
    return FoldedBatch(entries, null_keys)
