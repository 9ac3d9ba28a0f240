"""The key-value store with a time to live: rows expire, are invisible at once, and are swept away a few at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from storekeeper.errors import ConfigurationError, InvalidArgumentError
from storekeeper.serdes.serde import Serde
from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, Entry
from storekeeper.stores.expiry_index import NEVER_MS, ExpiryIndexStore, expires_at_ms, put_at_ms, stamped, unstamped
from storekeeper.stores.key_ranges import KeyRanges
from storekeeper.stores.layers import StoreLayers
from storekeeper.stores.store_iterator import StoreIterator
from storekeeper.stores.stream_time import TimedStore, check_key_and_time

K = TypeVar("K")
V = TypeVar("V")


class TtlKeyValueStore(KeyRanges[K, V], TimedStore[K, V]):
    """A key-value store whose rows expire; reads don't see expired rows. Made by `StoreBuilder.ttl_key_value`.

    A row put at `t` with a TTL of `n` is visible while stream time is below `t + n`. Stream time is the latest
    timestamp that was put: reading never moves it. Expired rows stay on disk until `sweep`. One writer, many readers.

    The TTL is stamped into each value, so the changelog carries it and a restore rebuilds the expiry index.
    """

    def __init__(self, layers: StoreLayers, key_serde: Serde[K], value_serde: Serde[V], *, ttl_ms: int | None) -> None:
        check_ttl(ttl_ms)
        super().__init__(layers, key_serde, value_serde, retention_ms=NEVER_MS)
        if layers.expiry_index is None:
            raise ConfigurationError("a store with a TTL needs an expiry index below; use the builder")
        self._index: ExpiryIndexStore = layers.expiry_index
        self._ttl_ms = ttl_ms

    def put(self, key: K, value: V | None, timestamp_ms: int, ttl_ms: int | None = None) -> None:
        """Sets the value and restarts its TTL; None deletes. A late timestamp may be expired at once.

        Args:
            key: not None.
            value: the value.
            timestamp_ms: when the TTL starts; moves stream time.
            ttl_ms: the TTL, at least 1; None takes the store's.

        Raises:
            NullKeyError: the key is None.
            InvalidTimestampError: `timestamp_ms` is not an integer in 0 to 2^63 - 1.
            InvalidArgumentError: `ttl_ms` is below 1.
        """
        check_key_and_time(key, timestamp_ms)
        if ttl_ms is not None and ttl_ms < 1:
            msg = f"the TTL can't be {ttl_ms} ms; use at least 1, or None for the store's TTL, or delete the row"
            raise InvalidArgumentError(msg)
        # Encoded first: a value that its serde refuses must not move stream time.
        row = (self._encode_key(key), None if value is None else self._stamped(value, timestamp_ms, ttl_ms))
        moved = self._time.observe(timestamp_ms)
        self._write((row,), self._time.encoded() if moved else NO_METADATA)

    def get(self, key: K) -> V | None:
        """The value, or None if there is none or it expired."""
        check_key_and_time(key)
        return self._visible(self._top.get(self._encode_key(key)))

    def get_many(self, keys: Sequence[K]) -> list[V | None]:
        """The values at `keys`, in their order, None where there is none or it expired. One call to the backend."""
        for key in keys:
            check_key_and_time(key)
        return [self._visible(data) for data in self._top.get_many([self._encode_key(key) for key in keys])]

    def delete(self, key: K) -> V | None:
        """Deletes the row; returns the value that was visible, or None."""
        current = self.get(key)
        self._write(((self._encode_key(key), None),))
        return current

    def sweep(self, limit: int | None = 1000) -> int:
        """Deletes at most `limit` expired rows, or all, and logs their deletion; changes no answer.

        Returns:
            How many went.

        It works below the cache: a row that was written again and still waits there comes after the deletion, on disk
        and in the changelog. In a transaction it leaves rows that the transaction has refreshed or deleted. So a
        refreshed key is never lost.
        """
        logged = self._layers.logged
        keys = self._index.expired_keys(self._time.observed_ms, limit)
        rows = zip(keys, logged.get_many(keys), strict=True)
        expired = [(key, None) for key, data in rows if data is not None and self.is_expired(data)]
        if expired:
            logged.write(expired)
        return len(expired)

    def observe(self, timestamp_ms: int) -> None:
        """Moves stream time on, as a put of that timestamp would: for partitions that get no records."""
        check_key_and_time("", timestamp_ms)
        if self._time.observe(timestamp_ms):
            self._write((), self._time.encoded())

    def _times_in(self, rows: Sequence[Entry]) -> Iterator[int]:
        return (put_at_ms(data) for _, data in rows if data is not None)

    def _stamped(self, value: V, timestamp_ms: int, ttl_ms: int | None) -> bytes:
        ttl = self._ttl_ms if ttl_ms is None else ttl_ms
        end_ms = NEVER_MS if ttl is None else min(timestamp_ms + ttl, NEVER_MS)
        return stamped(self._encode(value), end_ms, timestamp_ms)

    def _visible(self, data: bytes | None) -> V | None:
        if data is None or self.is_expired(data):
            return None
        return self._decode(unstamped(data))

    def is_expired(self, data: bytes) -> bool:
        """Whether a stored value has expired."""
        end_ms = expires_at_ms(data)
        return end_ms != NEVER_MS and end_ms <= self._time.observed_ms

    def _iterator(self, rows: BytesIterator) -> StoreIterator[tuple[K, V]]:
        return StoreIterator(self._visible_rows(rows), rows)

    def _visible_rows(self, rows: BytesIterator) -> Iterator[tuple[K, V]]:
        for key, data in rows:
            if not self.is_expired(data):
                yield self._decode_key(key), self._decode(unstamped(data))


def check_ttl(ttl_ms: int | None) -> None:
    """Refuses a store's time to live that can't work.

    Raises:
        ConfigurationError: it is neither positive nor None.
    """
    if ttl_ms is not None and ttl_ms < 1:
        msg = f"the TTL can't be {ttl_ms} ms; use at least 1, or None for rows that stay"
        raise ConfigurationError(msg)
