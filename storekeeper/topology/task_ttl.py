"""The store with a TTL of a task. Its changelog is that of any key-value store, and holds no expired row.

A changelog record is the plain value, with the time of its put as its timestamp. When a batch ends, its transaction
deletes all rows that have expired by then. So nodes, snapshots and other readers of committed records need to know
nothing of the TTL.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TypeVar

from storekeeper.errors import InvalidArgumentError
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.stores.expiry_index import (
    NEVER_MS,
    ExpiryIndexStore,
    expires_at_ms,
    put_at_ms,
    stamped,
    unstamped,
)
from storekeeper.stores.stream_time import NOTHING_SEEN_MS, check_key_and_time
from storekeeper.stores.transaction import TransactionStore
from storekeeper.stores.ttl import TtlKeyValueStore

K = TypeVar("K")
V = TypeVar("V")

_TTL_KEY = b"ttl-ms"
_CHUNK_ROWS = 1000


class TaskTtlStore(TtlKeyValueStore[K, V]):
    """A store with a TTL whose rows go when a batch ends. All rows have the TTL of the store.

    Its stream time is that of its task: records move it that put nothing, too.
    """

    _now_ms: Callable[[], int] = staticmethod(lambda: NOTHING_SEEN_MS)

    def follow(self, now_ms: Callable[[], int]) -> None:
        """From now on rows expire by the stream time of the task, which `now_ms` gives."""
        self._now_ms = now_ms

    def is_expired(self, data: bytes) -> bool:
        """Whether a stored value has expired."""
        end_ms = expires_at_ms(data)
        return end_ms != NEVER_MS and end_ms <= max(self._time.observed_ms, self._now_ms())

    def put(self, key: K, value: V | None, timestamp_ms: int, ttl_ms: int | None = None) -> None:
        """Sets the value and restarts its TTL; None deletes. A late timestamp may be expired at once.

        Raises:
            NullKeyError: the key is None.
            InvalidTimestampError: `timestamp_ms` is not an integer from 0 to the end of the year 9999.
            InvalidArgumentError: a TTL is given.
        """
        check_key_and_time(key, timestamp_ms)
        if ttl_ms is not None:
            msg = f"store {self.name}: a row can't have a TTL of its own; declare another store with that ttl"
            raise InvalidArgumentError(msg)
        super().put(key, value, timestamp_ms)

    def expire_rows(self, transaction: TransactionStore) -> None:
        """Deletes in a transaction all rows that have expired: those below, and those that it has written."""
        self._time.observe(min(self._now_ms(), self._time.latest_ms))
        self.sweep(limit=None)
        written = transaction.pending
        if late := [(key, None) for key, data in written if data is not None and self.is_expired(data)]:
            transaction.write(late)


def keep_ttl(index: ExpiryIndexStore, ttl_ms: int) -> None:
    """Gives all rows of a task's store its TTL, if it was another one before.

    So rows expire at the same time, whether the store was restored since or not.
    """
    own = b"%d" % ttl_ms
    if index.metadata(_TTL_KEY) == own:
        return
    start: bytes | None = None
    while True:
        with index.scan(start, None) as found:
            rows = list(islice(found, _CHUNK_ROWS))
        index.write([(key, with_ttl(unstamped(data), put_at_ms(data), ttl_ms)) for key, data in rows])
        if len(rows) < _CHUNK_ROWS:
            break
        start = rows[-1][0] + b"\0"
    index.write((), {_TTL_KEY: own})


def with_ttl(value: bytes, put_at: int, ttl_ms: int) -> bytes:
    """A value as it is stored, from a changelog record."""
    return stamped(value, min(put_at + ttl_ms, MAX_TIMESTAMP_MS), put_at)
