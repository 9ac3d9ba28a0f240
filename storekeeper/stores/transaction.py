"""Several writes that become visible and durable together, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from sortedcontainers import SortedList

from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, BytesStore, Entry
from storekeeper.stores.derived_iterator import DerivedIterator, merged, overlaid
from storekeeper.stores.iterators import ClosingIterator
from storekeeper.stores.wrapped import WrappedStore

_FIRST = 8
"""How many uncommitted writes a scan lists at once."""


class _Changes(ClosingIterator[Entry]):
    """The uncommitted writes that a scan has not listed, as of its beginning.

    They are looked up one by one, as most scans end early; before the next write, all that are left.
    """

    __slots__ = ("_closed", "_keys", "_left", "_rows")

    def __init__(self, keys: Iterator[bytes], rows: Mapping[bytes, bytes | None]) -> None:
        self._keys = keys
        self._rows = rows
        self._left: Iterator[Entry] | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        """True after its own close."""
        return self._closed

    def __next__(self) -> Entry:
        if self._left is not None:
            return next(self._left)
        key = next(self._keys)
        return key, self._rows[key]

    def settle(self) -> None:
        """The rows are about to change."""
        if not self._closed and self._left is None:
            self._left = iter([(key, self._rows[key]) for key in self._keys])

    def close(self) -> None:
        """Nobody asks for what is left."""
        self._closed = True


class TransactionStore(WrappedStore):
    """The wrapper that holds writes back until `commit`. Reads through it see them; reads below don't.

    Of several writes to one key only the last is committed, a deletion always as a tombstone. Not thread-safe.
    """

    def __init__(self, inner: BytesStore) -> None:
        super().__init__(inner)
        self._rows: dict[bytes, bytes | None] = {}
        self._ordered: SortedList | None = None
        self._scans: list[_Changes] = []
        self._metadata: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`, uncommitted ones included."""
        return self._rows[key] if key in self._rows else self._inner.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at `keys`, uncommitted ones included."""
        values = self._inner.get_many(keys)
        return [self._rows.get(key, value) for key, value in zip(keys, values, strict=True)]

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Adds writes to the transaction."""
        rows, ordered = self._rows, self._ordered
        if self._scans:
            for scan in self._scans:
                scan.settle()
            self._scans = []
        for key, value in entries:
            if key in rows:
                del rows[key]
            elif ordered is not None:
                ordered.add(key)
            rows[key] = value
        self._metadata.update(metadata)

    @property
    def pending(self) -> list[Entry]:
        """The uncommitted writes, the last one of each key, in their order."""
        return list(self._rows.items())

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        """Rows with the uncommitted writes merged in."""
        if self._ordered is None:
            # Sorted with the first scan and kept so: a join scans for every record.
            self._ordered = SortedList(self._rows)
        swapped = start is not None and stop is not None and start >= stop
        keys = iter(()) if swapped else self._ordered.irange(start, stop, inclusive=(True, False), reverse=reverse)
        first = [(key, self._rows[key]) for key in islice(keys, _FIRST)]
        rows = self._inner.scan(start, stop, reverse=reverse)
        if len(first) < _FIRST:
            return overlaid(first, rows, self.open_iterators, reverse=reverse)
        left = _Changes(keys, self._rows)
        self._scans.append(left)
        changes = merged(chain(first, left), rows, reverse=reverse)
        return DerivedIterator(changes, (rows, left), self.open_iterators)

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Adds the deletion of every row with `start <= key < stop`, row by row, to the transaction."""
        with self.scan(start, stop) as rows:
            keys = [key for key, _ in rows]
        self.write([(key, None) for key in keys])

    def metadata(self, key: bytes) -> bytes | None:
        """The metadata entry, uncommitted ones included."""
        return self._metadata[key] if key in self._metadata else self._inner.metadata(key)

    def commit(self) -> None:
        """Writes everything in one atomic step and starts a new transaction. Without writes nothing happens.

        Raises:
            DiskFullError: nothing was written; the transaction is still there, to be committed again or aborted.
        """
        if self._rows or self._metadata:
            self._inner.write(list(self._rows.items()), self._metadata)
        self.abort()

    def abort(self) -> None:
        """Forgets everything since the last commit."""
        self._rows = {}
        self._ordered = None
        self._scans = []
        self._metadata = {}

    def flush(self) -> None:
        """Commits, then makes all that was written safe."""
        self.commit()
        self._inner.flush()

    def close(self) -> None:
        """Closes the store below; uncommitted writes are lost."""
        self.abort()
        self._inner.close()
