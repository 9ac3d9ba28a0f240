"""The bounded in-memory backend: of too many rows, the one that was not used for longest goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence

from storekeeper.errors import ConfigurationError
from storekeeper.stores.bytes_store import NO_METADATA, Entry
from storekeeper.stores.memory import MemoryStore


class LruStore(MemoryStore):
    """A `BytesStore` of at most `max_entries` rows in the process's memory. Reading a row makes it the newest.

    Scans refresh no row. Safe for one writer and many readers.
    """

    def __init__(self, name: str, max_entries: int) -> None:
        if max_entries < 1:
            msg = f"an LRU store needs room for at least one row, not {max_entries}"
            raise ConfigurationError(msg)
        super().__init__(name)
        self._max_entries = max_entries
        self._used: OrderedDict[bytes, None] = OrderedDict()
        self._on_evict: Callable[[bytes], None] | None = None
        self.evictions = 0

    def on_evict(self, listener: Callable[[bytes], None]) -> None:
        """Sets the listener that gets evicted keys: a changelog needs a tombstone for each."""
        self._on_evict = listener

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`, or None."""
        with self._lock:
            value = super().get(key)
            if value is not None:
                self._used.move_to_end(key)
            return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at `keys`, in their order."""
        return [self.get(key) for key in keys] if keys else super().get_many(keys)

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes rows and metadata, then evicts the excess."""
        rows = list(entries)
        evicted: list[bytes] = []
        with self._lock:
            super().write(rows, metadata)
            for key, value in rows:
                self._used.pop(key, None)
                if value is not None:
                    self._used[key] = None
            while len(self._used) > self._max_entries:
                evicted.append(self._used.popitem(last=False)[0])
                del self._rows[evicted[-1]]
        self.evictions += len(evicted)
        if self._on_evict is not None:
            for key in evicted:
                self._on_evict(key)

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Deletes every row with `start <= key < stop`."""
        with self._lock:
            for key in self._keys(start, stop):
                del self._used[key]
            super().delete_range(start, stop)

    def close(self) -> None:
        """Drops the rows; open iterators become unusable. Safe to call twice."""
        with self._lock:
            super().close()
            self._used.clear()
