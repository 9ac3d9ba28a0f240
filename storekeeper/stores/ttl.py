"""The key-value store with a time to live. Its changelog is that of any key-value store, and holds no expired row.

A changelog record is the plain value, with the time of its put as its timestamp. When a batch ends, its transaction
deletes all rows that have expired by then. So nodes, snapshots and other readers of committed records need to know
nothing of the TTL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from storekeeper.errors import ConfigurationError
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.serdes.serde import Serde
from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, Entry
from storekeeper.stores.expiry_index import NEVER_MS, ExpiryIndexStore, expires_at_ms, put_at_ms, stamped, unstamped
from storekeeper.stores.iterators import StoreIterator
from storekeeper.stores.key_value import KeyRanges
from storekeeper.stores.layers import StoreLayers
from storekeeper.stores.stream_time import NOTHING_SEEN_MS, TimedStore, check_key_and_time
from storekeeper.stores.transaction import TransactionStore

K = TypeVar("K")
V = TypeVar("V")

_TTL_KEY = b"ttl-ms"
_CHUNK_ROWS = 1000


class TtlKeyValueStore(KeyRanges[K, V], TimedStore[K, V]):
    """A key-value store whose rows expire; reads don't see expired rows. All rows have the TTL of the store.

    A row put at `t` with a TTL of `n` is visible while stream time is below `t + n`. Stream time is that of the task:
    records move it that put nothing, too. Expired rows go when a batch ends.
    """

    _now_ms: Callable[[], int] = staticmethod(lambda: NOTHING_SEEN_MS)

    def __init__(self, layers: StoreLayers, key_serde: Serde[K], value_serde: Serde[V], *, ttl_ms: int) -> None:
        if ttl_ms < 1:
            raise ConfigurationError(f"a TTL can't be {ttl_ms} ms; use at least 1")
        super().__init__(layers, key_serde, value_serde, retention_ms=NEVER_MS)
        if layers.expiry_index is None:
            raise ConfigurationError("a store with a TTL needs an expiry index below")
        self._index: ExpiryIndexStore = layers.expiry_index
        self._ttl_ms = ttl_ms

    def follow(self, now_ms: Callable[[], int]) -> None:
        """From now on rows expire by the stream time of the task, which `now_ms` gives."""
        self._now_ms = now_ms

    def put(self, key: K, value: V | None, timestamp_ms: int) -> None:
        """Sets the value and restarts its TTL; None deletes. A late timestamp may be expired at once.

        Args:
            key: not None.
            value: the value.
            timestamp_ms: when the TTL starts; moves stream time.

        Raises:
            NullKeyError: the key is None.
            InvalidTimestampError: `timestamp_ms` is not an integer from 0 to the end of the year 9999.
        """
        check_key_and_time(key, timestamp_ms)
        # Encoded first: a value that its serde refuses must not move stream time.
        row = (
            self._encode_key(key),
            None if value is None else with_ttl(self._encode(value), timestamp_ms, self._ttl_ms),
        )
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

    def expire_rows(self, transaction: TransactionStore) -> None:
        """Deletes in a transaction all rows that have expired: those below, and those that it has written.

        It leaves rows that the transaction has refreshed.
        """
        self._time.observe(min(self._now_ms(), self._time.latest_ms))
        keys = self._index.expired_keys(self._time.observed_ms, None)
        below = zip(keys, transaction.get_many(keys), strict=True)
        for rows in (below, transaction.pending):
            if late := [(key, None) for key, data in rows if data is not None and self.is_expired(data)]:
                transaction.write(late)

    def _times_in(self, rows: Sequence[Entry]) -> Iterator[int]:
        return (put_at_ms(data) for _, data in rows if data is not None)

    def _visible(self, data: bytes | None) -> V | None:
        if data is None or self.is_expired(data):
            return None
        return self._decode(unstamped(data))

    def is_expired(self, data: bytes) -> bool:
        """Whether a stored value has expired."""
        end_ms = expires_at_ms(data)
        return end_ms != NEVER_MS and end_ms <= max(self._time.observed_ms, self._now_ms())

    def _iterator(self, rows: BytesIterator) -> StoreIterator[tuple[K, V]]:
        return StoreIterator(self._visible_rows(rows), rows)

    def _visible_rows(self, rows: BytesIterator) -> Iterator[tuple[K, V]]:
        for key, data in rows:
            if not self.is_expired(data):
                yield self._decode_key(key), self._decode(unstamped(data))


def keep_ttl(index: ExpiryIndexStore, ttl_ms: int) -> None:
    """Gives all rows of a store its TTL, if it was another one before.

    So rows expire at the same time, whether the store was restored since or not.
    """
    own = b"%d" % ttl_ms
    if index.metadata(_TTL_KEY) == own:
        return
    start: bytes | None = None
    while True:
        with index.scan(start, None) as expiries:
            rows = list(islice(expiries, _CHUNK_ROWS))
        index.write([(key, with_ttl(unstamped(data), put_at_ms(data), ttl_ms)) for key, data in rows])
        if len(rows) < _CHUNK_ROWS:
            break
        start = rows[-1][0] + b"\0"
    index.write((), {_TTL_KEY: own})


def with_ttl(value: bytes, put_at: int, ttl_ms: int) -> bytes:
    """A value as it is stored, from a changelog record."""
    return stamped(value, min(put_at + ttl_ms, MAX_TIMESTAMP_MS), put_at)
