"""Where change-logging stores write to: the contract, and a list in memory for tests and for single processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from storekeeper.stores.bytes_store import Entry
from storekeeper.stores.record_context import Header


class ChangelogWriter(Protocol):
    """Takes changes in the order in which they were made. Not thread-safe."""

    def append(self, key: bytes, value: bytes | None, timestamp_ms: int, headers: Sequence[Header]) -> None:
        """Adds one change; a None value is a tombstone. May buffer until `flush`."""
        ...

    def append_many(self, entries: Sequence[Entry], timestamps_ms: Sequence[int], headers: Sequence[Header]) -> None:
        """Adds changes with one timestamp each, in their order."""
        ...

    def flush(self) -> None:
        """Waits until every change that was appended is safe.

        Raises:
            ChangelogError: one was not.
        """
        ...


class ChangelogRecord(NamedTuple):
    """One change as it stands in the log."""

    key: bytes
    value: bytes | None
    timestamp_ms: int
    headers: Sequence[Header]


class InMemoryChangelog:
    """A changelog that is a list."""

    def __init__(self) -> None:
        self.records: list[ChangelogRecord] = []

    def append(self, key: bytes, value: bytes | None, timestamp_ms: int, headers: Sequence[Header]) -> None:
        """Adds one change."""
        self.records.append(ChangelogRecord(key, value, timestamp_ms, headers))

    def append_many(self, entries: Sequence[Entry], timestamps_ms: Sequence[int], headers: Sequence[Header]) -> None:
        """Adds changes."""
        self.records.extend(
            ChangelogRecord(key, value, timestamp_ms, headers)
            for (key, value), timestamp_ms in zip(entries, timestamps_ms, strict=True)
        )

    def flush(self) -> None:
        """Does nothing: memory is all there is."""
