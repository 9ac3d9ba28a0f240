"""The in-memory backend of a bounded store, which knows the order in which its rows were used."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from storekeeper.errors import ConfigurationError
from storekeeper.stores.bytes_store import NO_METADATA, Entry
from storekeeper.stores.memory import MemoryStore


class LruStore(MemoryStore):
    """A `BytesStore` in the process's memory for at most `max_rows` rows. Reading a row makes it the newest.

    It deletes nothing by itself: `excess` names the rows to delete, and their deletion is logged as any other. Scans
    refresh no row.
    """

    def __init__(self, name: str, max_rows: int) -> None:
        if max_rows < 1:
            msg = f"store {name}: a bounded store needs room for at least one row, not {max_rows}"
            raise ConfigurationError(msg)
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
