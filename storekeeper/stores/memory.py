"""The in-memory backends: rows in a sorted dictionary, gone with the process; and those of a bounded store."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from sortedcontainers import SortedDict

from storekeeper.errors import ConfigurationError
from storekeeper.stores.bytes_store import NO_METADATA, Backend, BytesIterator, Entry
from storekeeper.stores.iterators import Row, RowIterator


class MemoryStore(Backend):
    """A `BytesStore` in the process's memory.

    A scan fixes its keys at the call. A row deleted during the scan is skipped, an overwritten one shows its new
    value, as in Kafka Streams' in-memory store. Safe for one writer and many readers.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._rows: SortedDict[bytes, bytes] = SortedDict()
        self._metadata: dict[bytes, bytes] = {}
        # The sorted keys are several lists that change one after the other: no scan may list keys in between.
        self._lock = threading.RLock()

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`, or None."""
        if not self._open:
            self._refuse()
        return self._rows.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at `keys`, in their order."""
        if not self._open:
            self._refuse()
        return list(map(self._rows.get, keys))

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes rows and metadata; a None value deletes."""
        if not self._open:
            self._refuse()
        rows = self._rows
        with self._lock:
            for key, value in entries:
                if value is None:
                    rows.pop(key, None)
                else:
                    rows[key] = value
        for key, value in metadata.items():
            if value is None:
                self._metadata.pop(key, None)
            else:
                self._metadata[key] = value

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        """Rows with `start <= key < stop`, in byte order or backwards."""
        if not self._open:
            self._refuse()
        with self._lock:
            keys = self._keys(start, stop)
        if reverse:
            keys.reverse()
        return RowIterator(self._present(keys), self._iterators)

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Deletes every row with `start <= key < stop`."""
        if not self._open:
            self._refuse()
        with self._lock:
            for key in self._keys(start, stop):
                del self._rows[key]

    def metadata(self, key: bytes) -> bytes | None:
        """The metadata entry at `key`, or None."""
        if not self._open:
            self._refuse()
        return self._metadata.get(key)

    def approximate_num_entries(self) -> int:
        """Exactly how many rows there are."""
        if not self._open:
            self._refuse()
        return len(self._rows)

    def flush(self) -> None:
        """Does nothing: rows never outlive the process."""
        if not self._open:
            self._refuse()

    def close(self) -> None:
        """Drops the rows; open iterators become unusable. Safe to call twice."""
        self._open = False
        self._iterators.shut_down()
        self._rows = SortedDict()
        self._metadata = {}

    def _keys(self, start: bytes | None, stop: bytes | None) -> list[bytes]:
        if start is not None and stop is not None and start >= stop:
            return []
        return list(self._rows.irange(start, stop, inclusive=(True, False)))

    def _present(self, keys: list[bytes]) -> Iterator[Row]:
        rows = self._rows
        for key in keys:
            value = rows.get(key)
            if value is not None:
                yield key, value


class LruStore(MemoryStore):
    """A `BytesStore` in the process's memory for at most `max_rows` rows. Reading a row makes it the newest.

    It deletes nothing by itself: `excess` names the rows to delete, and their deletion is logged as any other. Scans
    refresh no row.
    """

    def __init__(self, name: str, max_rows: int) -> None:
        if max_rows < 1:
            raise ConfigurationError(f"store {name}: a bounded store needs room for at least one row, not {max_rows}")
        super().__init__(name)
        self._max_rows = max_rows
        self._used: OrderedDict[bytes, None] = OrderedDict()

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`, or None."""
        value = super().get(key)
        if value is not None:
            self._used[key] = None
            self._used.move_to_end(key)
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at `keys`, in their order."""
        return [self.get(key) for key in keys] if keys else super().get_many(keys)

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes rows and metadata."""
        rows = list(entries)
        for key, value in rows:
            self._used.pop(key, None)
            if value is not None:
                self._used[key] = None
        super().write(rows, metadata)

    def excess(self, changes: Iterable[Entry]) -> list[bytes]:
        """The rows to delete so that at most `max_rows` are left once some changes are written.

        They are those not used for longest. Changed rows count as used last, in the order of the changes.
        """
        changed = dict(changes)
        kept = [key for key, value in changed.items() if value is not None]
        unchanged = (key for key in self._used if key not in changed)
        count = len(self._used) - sum(key in self._used for key in changed) + len(kept) - self._max_rows
        oldest = list(islice(unchanged, max(count, 0)))
        return oldest + kept[: max(count, 0) - len(oldest)]

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Deletes every row with `start <= key < stop`."""
        for key in self._keys(start, stop):
            self._used.pop(key, None)
        super().delete_range(start, stop)

    def close(self) -> None:
        """Drops the rows; open iterators become unusable. Safe to call twice."""
        super().close()
        self._used.clear()
