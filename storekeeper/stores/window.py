"""The window store: values by key and window start, kept for a retention of stream time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from storekeeper.errors import ConfigurationError
from storekeeper.serdes.keys.windows import (
    MAX_TIMESTAMP_MS,
    decode_window_row_key,
    key_bounds,
    window_bounds,
    window_row_key,
    window_start_ms,
)
from storekeeper.serdes.serde import Serde
from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, Entry
from storekeeper.stores.iterators import StoreIterator
from storekeeper.stores.layers import StoreLayers
from storekeeper.stores.stream_time import TimedStore, check_key_and_time, clamped
from storekeeper.stores.windowed import Windowed

K = TypeVar("K")
V = TypeVar("V")


class WindowStore(TimedStore[K, V]):
    """Windows of one size.

    A window lives while `start >= stream time - retention + 1`; stream time is the latest start that was put. Later
    puts are dropped and counted, expired windows are never seen, whether or not they are still on disk. Times are
    epoch milliseconds, both ends of ranges included.
    """

    def __init__(
        self,
        layers: StoreLayers,
        key_serde: Serde[K],
        value_serde: Serde[V],
        *,
        window_size_ms: int,
        retention_ms: int,
        retain_duplicates: bool,
    ) -> None:
        if window_size_ms < 1 or retention_ms < window_size_ms:
            msg = f"windows of {window_size_ms} ms need a retention of at least their size, not {retention_ms} ms"
            raise ConfigurationError(msg)
        super().__init__(layers, key_serde, value_serde, retention_ms=retention_ms)
        self._window_size_ms = window_size_ms
        self._retain_duplicates = retain_duplicates

    @property
    def window_size_ms(self) -> int:
        """The size of every window."""
        return self._window_size_ms

    def put(self, key: K, value: V | None, start_ms: int) -> None:
        """Sets the value of the window that starts at `start_ms`; None deletes it.

        In a store with duplicates every put adds a value, and None does nothing.

        Raises:
            NullKeyError: the key is None.
            InvalidTimestampError: `start_ms` is not an integer in 0 to 2^63 - 1.
        """
        check_key_and_time(key, start_ms)
        if value is None and self._retain_duplicates:
            return
        # Encoded first: a value that its serde refuses must not move stream time.
        plain_key, data = self._encode_key(key), None if value is None else self._encode(value)
        moved = self._time.observe(start_ms)
        if not self._time.admits(start_ms):
            return
        sequence = self._time.next_sequence() if self._retain_duplicates else 0
        row = (window_row_key(plain_key, start_ms, sequence), data)
        self._write((row,), self._time.encoded() if moved or self._retain_duplicates else NO_METADATA)

    def fetch_one(self, key: K, start_ms: int) -> V | None:
        """The value of the window that starts at `start_ms`, or None; of duplicates the last."""
        check_key_and_time(key)
        if start_ms < self._time.oldest_live_ms or start_ms > MAX_TIMESTAMP_MS:
            return None
        if self._retain_duplicates:
            with self.backward_fetch(key, start_ms, start_ms) as values:
                return next((value for _, value in values), None)
        data = self._top.get(window_row_key(self._encode_key(key), start_ms))
        return None if data is None else self._decode(data)

    def fetch(self, key: K, from_ms: int, to_ms: int) -> StoreIterator[tuple[int, V]]:
        """(start, value) of a key's windows that start from `from_ms` to `to_ms`, oldest first."""
        return self._of_key(key, from_ms, to_ms, reverse=False)

    def backward_fetch(self, key: K, from_ms: int, to_ms: int) -> StoreIterator[tuple[int, V]]:
        """As `fetch`, newest first."""
        return self._of_key(key, from_ms, to_ms, reverse=True)

    def fetch_range(
        self, key_from: K | None, key_to: K | None, from_ms: int, to_ms: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """Windows of the keys from `key_from` to `key_to`, both included; by key, then start. None: open end."""
        return self._of_keys(key_from, key_to, from_ms, to_ms, reverse=False)

    def backward_fetch_range(
        self, key_from: K | None, key_to: K | None, from_ms: int, to_ms: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `fetch_range`, backwards."""
        return self._of_keys(key_from, key_to, from_ms, to_ms, reverse=True)

    def fetch_all(self, from_ms: int, to_ms: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """Windows of all keys that start from `from_ms` to `to_ms`; by key, then start. Reads every live window."""
        return self._of_keys(None, None, from_ms, to_ms, reverse=False)

    def backward_fetch_all(self, from_ms: int, to_ms: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `fetch_all`, backwards."""
        return self._of_keys(None, None, from_ms, to_ms, reverse=True)

    def all(self) -> StoreIterator[tuple[Windowed[K], V]]:
        """Every live window; by key, then start."""
        return self._of_keys(None, None, 0, MAX_TIMESTAMP_MS, reverse=False)

    def backward_all(self) -> StoreIterator[tuple[Windowed[K], V]]:
        """Every live window, backwards."""
        return self._of_keys(None, None, 0, MAX_TIMESTAMP_MS, reverse=True)

    def _times_in(self, rows: Sequence[Entry]) -> Iterator[int]:
        for row_key, _ in rows:
            _, start_ms, sequence = decode_window_row_key(row_key)
            self._time.sequence = max(self._time.sequence, sequence)
            yield start_ms

    def _of_key(self, key: K, from_ms: int, to_ms: int, *, reverse: bool) -> StoreIterator[tuple[int, V]]:
        check_key_and_time(key)
        oldest_ms = max(from_ms, self._time.oldest_live_ms)
        if oldest_ms > min(to_ms, MAX_TIMESTAMP_MS):
            rows = self._top.scan(b"", b"")
        else:
            start, stop = window_bounds(self._encode_key(key), oldest_ms, clamped(to_ms))
            rows = self._top.scan(start, stop, reverse=reverse)
        decode = self._decode
        return StoreIterator(((window_start_ms(row_key), decode(data)) for row_key, data in rows), rows)

    def _of_keys(
        self, key_from: K | None, key_to: K | None, from_ms: int, to_ms: int, *, reverse: bool
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        start, stop = key_bounds(self._bound(key_from), self._bound(key_to))
        rows = self._top.scan(start, stop, reverse=reverse)
        return StoreIterator(self._live(rows, max(from_ms, self._time.oldest_live_ms), to_ms), rows)

    def _live(self, rows: BytesIterator, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed[K], V]]:
        decode = self._decode
        for row_key, data in rows:
            if from_ms <= window_start_ms(row_key) <= to_ms:
                yield self._windowed(row_key), decode(data)

    def _windowed(self, row_key: bytes) -> Windowed[K]:
        key, start_ms, _ = decode_window_row_key(row_key)
        return Windowed(self._decode_key(key), start_ms, min(start_ms + self._window_size_ms, MAX_TIMESTAMP_MS))
