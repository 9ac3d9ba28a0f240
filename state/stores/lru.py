"""The in-memory LRU store: a bounded number of rows, the one that was not used for longest goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from state.errors import ConfigurationError
from state.stores.backend import Backend
from state.stores.bytes_store import NO_METADATA, BytesIterator, Entry
from state.stores.iterators import Row, RowIterator


class LruStore(Backend):
    """A `BytesStore` of at most `max_entries` rows in the process's memory. Reading a row makes it the newest.

    Scans sort the rows at the call and refresh none. Safe for one writer and many readers.
    """

    def __init__(self, name: str, max_entries: int) -> None:
        if max_entries < 1:
            msg = f"an LRU store needs room for at least one row, not {max_entries}"
            raise ConfigurationError(msg)
        super().__init__(name)
        self._max_entries = max_entries
        self._rows: OrderedDict[bytes, bytes] = OrderedDict()
        self._metadata: dict[bytes, bytes] = {}
        self._lock = threading.RLock()
        self._on_evict: Callable[[bytes], None] | None = None
        self.evictions = 0

    def on_evict(self, listener: Callable[[bytes], None]) -> None:
        """Sets the listener that gets evicted keys: a changelog needs a tombstone for each."""
        self._on_evict = listener

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`, or None."""
        self._check_open()
        with self._lock:
            value = self._rows.get(key)
            if value is not None:
                self._rows.move_to_end(key)
            return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at `keys`, in their order."""
        self._check_open()
        return [self.get(key) for key in keys]

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes rows and metadata, then evicts the excess."""
        self._check_open()
        evicted: list[bytes] = []
        with self._lock:
            for key, value in entries:
                self._rows.pop(key, None)
                if value is not None:
                    self._rows[key] = value
            while len(self._rows) > self._max_entries:
                evicted.append(self._rows.popitem(last=False)[0])
        self.evictions += len(evicted)
        for key, value in metadata.items():
            if value is None:
                self._metadata.pop(key, None)
            else:
                self._metadata[key] = value
        if self._on_evict is not None:
            for key in evicted:
                self._on_evict(key)

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        """Rows with `start <= key < stop`, in byte order or backwards."""
        self._check_open()
        with self._lock:
            present = list(self._rows)
        keys = sorted(
            (key for key in present if (start is None or key >= start) and (stop is None or key < stop)),
            reverse=reverse,
        )
        return RowIterator(self._present(keys), self._iterators)

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Deletes every row with `start <= key < stop`."""
        self._check_open()
        with self._lock:
            for key in [key for key in self._rows if start <= key < stop]:
                del self._rows[key]

    def metadata(self, key: bytes) -> bytes | None:
        """The metadata entry at `key`, or None."""
        self._check_open()
        return self._metadata.get(key)

    def approximate_num_entries(self) -> int:
        """Exactly how many rows there are."""
        self._check_open()
        return len(self._rows)

    def flush(self) -> None:
        """Does nothing: rows never outlive the process."""
        self._check_open()

    def close(self) -> None:
        """Drops the rows; open iterators become unusable. Safe to call twice."""
        self._open = False
        self._iterators.shut_down()
        with self._lock:
            self._rows.clear()
        self._metadata.clear()

    def _present(self, keys: Sequence[bytes]) -> Iterator[Row]:
        for key in keys:
            value = self._rows.get(key)
            if value is not None:
                yield key, value

    def _check_open(self) -> None:
        if not self._open:
            self._refuse()
