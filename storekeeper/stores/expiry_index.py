"""The expiry index below a store: rows ordered by the time they expire at, so that a sweep reads only those.

Row keys below, big-endian:

    'd' · key                        ->  value                                       (what the layers above see)
    'x' · int64 expires at · key     ->  nothing

A value of a store with a TTL is `int64 expires at · int64 put at · value`. Times are epoch milliseconds of stream time.
A row that expires at `2^63 - 1` never does, and has no index row. A row and its index row are written and deleted in
one step; only `take_out` deletes an index row alone. Because the index is ordered by time, a sweep is a scan of its
beginning.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, BytesStore, Entry
from storekeeper.stores.derived_iterator import DerivedIterator
from storekeeper.stores.iterators import Row
from storekeeper.stores.wrapped import WrappedStore

NEVER_MS = (1 << 63) - 1
_TIME = struct.Struct(">q")
_STAMP = struct.Struct(">qq")
_TIME_BYTES = _TIME.size
_DATA = b"d"
_AFTER_DATA = b"e"
_INDEX = b"x"
_AFTER_INDEX = b"y"


def stamped(value: bytes, expires_at_ms: int, put_at_ms: int) -> bytes:
    """A value with the time that it expires at and the time that it was put at in front."""
    return _STAMP.pack(expires_at_ms, put_at_ms) + value


def expires_at_ms(stamped_value: bytes) -> int:
    """The time that a stamped value expires at."""
    return int.from_bytes(stamped_value[:_TIME_BYTES], "big")


def put_at_ms(stamped_value: bytes) -> int:
    """The time that a stamped value was put at."""
    return int.from_bytes(stamped_value[_TIME_BYTES : _STAMP.size], "big")


def unstamped(stamped_value: bytes) -> bytes:
    """The value behind the stamp."""
    return stamped_value[_STAMP.size :]


def _stamped_end_ms(_: bytes, value: bytes) -> int:
    return expires_at_ms(value)


class ExpiryIndexStore(WrappedStore):
    """The wrapper that keeps the index.

    Args:
        inner: the store below.
        end_ms: the time that a row expires at, by its key and value. By default values are stamped with it.
    """

    def __init__(self, inner: BytesStore, end_ms: Callable[[bytes, bytes], int] = _stamped_end_ms) -> None:
        super().__init__(inner)
        self._end_ms = end_ms

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`, expired or not, or None."""
        return self._inner.get(_DATA + key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at `keys`, in their order."""
        return self._inner.get_many([_DATA + key for key in keys])

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes rows, moves their index rows along, and writes metadata, in one step."""
        rows = dict(entries)
        changes: list[Entry] = []
        for (key, value), old in zip(rows.items(), self.get_many(list(rows)), strict=True):
            if old is not None:
                changes += self._index_row(key, old, None)
            changes.append((_DATA + key, value))
            if value is not None:
                changes += self._index_row(key, value, b"")
        self._inner.write(changes, metadata)

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        """Rows with `start <= key < stop`, expired ones included."""
        rows = self._inner.scan(
            _DATA if start is None else _DATA + start,
            _AFTER_DATA if stop is None else _DATA + stop,
            reverse=reverse,
        )
        return DerivedIterator(_without_prefix(rows), (rows,), self.open_iterators)

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Deletes every row with `start <= key < stop` and its index row."""
        with self.scan(start, stop) as rows:
            keys = [key for key, _ in rows]
        self.write([(key, None) for key in keys])

    def approximate_num_entries(self) -> int:
        """Half of the rows below, because most rows have an index row."""
        return (self._inner.approximate_num_entries() + 1) // 2

    def expired_keys(self, now_ms: int, limit: int | None) -> list[bytes]:
        """Keys of at most `limit` rows, or of all, that expired at or before `now_ms`, longest expired first."""
        if now_ms < 0 or now_ms >= NEVER_MS:
            return []
        with self._inner.scan(_INDEX, _INDEX + _TIME.pack(now_ms + 1)) as rows:
            return [row_key[1 + _TIME_BYTES :] for row_key, _ in islice(rows, limit)]

    def take_out(self, keys: Sequence[bytes]) -> None:
        """Deletes the index rows of rows that stay. A row that is written again is in the index again."""
        rows = zip(keys, self.get_many(keys), strict=True)
        self._inner.write(
            [change for key, value in rows if value is not None for change in self._index_row(key, value, None)]
        )

    def index_size(self) -> int:
        """How many index rows there are, by counting them: for tests and for `doctor`-like checks."""
        with self._inner.scan(_INDEX, _AFTER_INDEX) as rows:
            return sum(1 for _ in rows)

    def _index_row(self, key: bytes, value: bytes, mark: bytes | None) -> tuple[Entry, ...]:
        end_ms = self._end_ms(key, value)
        return () if end_ms == NEVER_MS else ((_INDEX + _TIME.pack(end_ms) + key, mark),)


def _without_prefix(rows: BytesIterator) -> Iterator[Row]:
    for key, value in rows:
        yield key[1:], value
