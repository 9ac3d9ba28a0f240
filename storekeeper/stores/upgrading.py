"""Two stores that look like one while rows move from an old value format to a new one.

A row is in the new format when it was written, or read by key, since the change. Every step is safe to be cut off
anywhere: a row is written in the new format before it leaves the old store, and the new one wins while it is in both;
a deletion takes the old row first, so it can't come back.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, BytesStore, Entry
from storekeeper.stores.derived_iterator import DerivedIterator
from storekeeper.stores.iterators import Row
from storekeeper.stores.wrapped import WrappedStore

Convert = Callable[[bytes], bytes]


class UpgradingStore(WrappedStore):
    """The new store with the old one behind it. One writer; other threads may read with `get_many` and scans.

    Args:
        new: the store of the new format; metadata lives here.
        old: the store of the old format, which empties. Closed with this one.
        convert: makes a value of the new format from one of the old.
    """

    def __init__(self, new: BytesStore, old: BytesStore, convert: Convert) -> None:
        super().__init__(new)
        self._old = old
        self._convert = convert

    @property
    def old(self) -> BytesStore:
        """The store of the old format."""
        return self._old

    def get(self, key: bytes) -> bytes | None:
        """The value in the new format. One that is still in the old format moves."""
        value = self._inner.get(key)
        if value is not None:
            return value
        old = self._old.get(key)
        if old is None:
            return None
        value = self._convert(old)
        self.write([(key, value)])
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at `keys` in the new format; nothing moves."""
        values = self._inner.get_many(keys)
        absent = [index for index, value in enumerate(values) if value is None]
        for index, old in zip(absent, self._old.get_many([keys[index] for index in absent]), strict=True):
            values[index] = None if old is None else self._convert(old)
        return values

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes in the new format and removes the rows from the old store."""
        rows = list(entries)
        deletions: list[Entry] = [(key, None) for key, value in rows if value is None]
        self._old.write(deletions)
        self._inner.write(rows, metadata)
        self._old.write([(key, None) for key, value in rows if value is not None])

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        """Rows of both stores in the new format; nothing moves."""
        old = self._old.scan(start, stop, reverse=reverse)
        new = self._inner.scan(start, stop, reverse=reverse)
        converted = ((key, self._convert(value)) for key, value in old)
        rows = _either(converted, new, reverse=reverse)
        return DerivedIterator(rows, (old, new), self.open_iterators)

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Deletes every row with `start <= key < stop` from both."""
        self._old.delete_range(start, stop)
        self._inner.delete_range(start, stop)

    def approximate_num_entries(self) -> int:
        """About how many rows both have."""
        return self._old.approximate_num_entries() + self._inner.approximate_num_entries()

    def upgrade(self, limit: int) -> int:
        """Moves at most `limit` rows; returns how many moved. Less than `limit` means that the old store is empty."""
        with self._old.scan(None, None) as rows:
            batch = list(islice(rows, limit))
        present = self._inner.get_many([key for key, _ in batch])
        self._inner.write(
            [(key, self._convert(old)) for (key, old), new in zip(batch, present, strict=True) if new is None]
        )
        self._old.write([(key, None) for key, _ in batch])
        return len(batch)

    def flush(self) -> None:
        """Flushes the new store, then the old: a moved row is safe in the new one before its removal is."""
        self._inner.flush()
        self._old.flush()

    def close(self) -> None:
        """Closes both stores, also in the middle of the move: the next open continues it. Safe to call twice."""
        self._inner.close()
        self._old.close()


def _either(old: Iterator[Row], new: BytesIterator, *, reverse: bool) -> Iterator[Row]:
    """Rows of both in order; a key that is in both comes from the new store."""
    last: bytes | None = None
    for key, value in heapq.merge(new, old, key=lambda row: row[0], reverse=reverse):
        if key != last:
            yield key, value
        last = key
