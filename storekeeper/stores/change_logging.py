"""The wrapper that writes every change of the store below to a changelog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from storekeeper.stores.bytes_store import NO_METADATA, BytesStore, Entry
from storekeeper.stores.changelog_writer import ChangelogWriter
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.wrapped import WrappedStore


class ChangeLoggingStore(WrappedStore):
    """Writes to the store, then appends to the changelog, so that a write that fails is never logged.

    Metadata and `delete_range` are not logged: the first is rebuilt from the rows, the second removes only what every
    reader of the log counts as expired.
    """

    def __init__(self, inner: BytesStore, writer: ChangelogWriter, context: RecordContext) -> None:
        super().__init__(inner)
        self._writer = writer
        self._context = context
        self._gone: list[bytes] = []

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes and logs, with the current record's timestamp."""
        rows = entries if type(entries) is tuple or type(entries) is list else list(entries)
        self._inner.write(rows, metadata)
        context = self._context
        if len(rows) == 1:
            key, value = rows[0]
            self._writer.append(key, value, context.timestamp_ms, context.headers)
        elif rows:
            self._writer.append_many(rows, [context.timestamp_ms] * len(rows), context.headers)
        if self._gone:
            self._log_gone()

    def log_deletion(self, key: bytes) -> None:
        """Notes a row that the store below dropped by itself because it was full.

        Its tombstone is logged after the current write, which may have put the row, or else with the next write or
        flush; not at all if the row is back by then.
        """
        self._gone.append(key)

    def write_stamped(
        self, rows: Sequence[Entry], timestamps_ms: Sequence[int], metadata: Mapping[bytes, bytes | None]
    ) -> None:
        """Writes and logs rows that were made at different times: what a cache flushes."""
        self._inner.write(rows, metadata)
        if rows:
            self._writer.append_many(rows, timestamps_ms, self._context.headers)
        if self._gone:
            self._log_gone()

    def flush(self) -> None:
        """Flushes the store, then the changelog."""
        self._inner.flush()
        self._log_gone()
        self._writer.flush()

    def close(self) -> None:
        """Flushes the changelog and closes the store.

        Raises:
            ChangelogError: a change didn't reach the changelog; the store is closed all the same.
        """
        try:
            if self._inner.is_open:
                self._log_gone()
                self._writer.flush()
        finally:
            self._inner.close()

    def _log_gone(self) -> None:
        gone, self._gone = self._gone, []
        for key in gone:
            if self._inner.get(key) is None:
                self._writer.append(key, None, self._context.timestamp_ms, self._context.headers)
