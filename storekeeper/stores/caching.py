"""The record cache: writes wait here until a flush, one per key, and go down in the order of their last write.

Only the last value of a key reaches the store and its changelog. The cache holds clean rows too, read or flushed
before. It is bounded by a `CacheBudget`, which several stores may share.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from sortedcontainers import SortedSet

from storekeeper.errors import InvalidArgumentError, StoreClosedError
from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, BytesStore, Entry
from storekeeper.stores.change_logging import ChangeLoggingStore
from storekeeper.stores.derived_iterator import overlaid
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.wrapped import WrappedStore

ENTRY_OVERHEAD_BYTES: Final = 120
"""The overhead of a cached row beside its key and value: two dictionary slots and two bytes headers, measured."""

Change = tuple[bytes, bytes | None, bytes | None]
"""(key, new value, old value)."""
FlushListener = Callable[[Sequence[Change]], None]

BULK_ROWS: Final = 256
"""A batch of this many rows is one write below already: caching saves nothing, and would evict rows that are read."""

_MISSING: Final = object()


@dataclass(slots=True)
class CacheBudget:
    """A bound that the caches of one task share.

    A store that goes over it evicts rows of its own, so a busy store can't empty an idle one's cache.

    Attributes:
        max_bytes: keys, values and overhead of all rows; None means no bound.
        max_entries: rows; None means no bound.
        used_bytes: bytes in use now.
        entries: rows cached now.
    """

    max_bytes: int | None = 10 * 1024 * 1024
    max_entries: int | None = None
    used_bytes: int = 0
    entries: int = 0

    @property
    def exceeded(self) -> bool:
        """Whether rows must be evicted."""
        return (self.max_bytes is not None and self.used_bytes > self.max_bytes) or (
            self.max_entries is not None and self.entries > self.max_entries
        )

    @property
    def excess_entries(self) -> int:
        """About how many rows must be evicted, by their mean size; at least 1."""
        by_entries = 0 if self.max_entries is None else self.entries - self.max_entries
        by_bytes = 0
        if self.max_bytes is not None and self.used_bytes > self.max_bytes:
            by_bytes = (self.used_bytes - self.max_bytes) * self.entries // self.used_bytes
        return max(by_entries, by_bytes, 1)


class CachingStore(WrappedStore):
    """The wrapper that caches. One writer, many readers; readers of other threads see cached writes at once.

    Batches of `BULK_ROWS` and more go straight to the store below, after the waiting writes.

    Evicting one row that was not flushed flushes all of them, oldest write first: so the changelog keeps the order of
    writes. A row that was put and deleted between two flushes, and that the store below never had, reaches neither.

    Args:
        inner: the store below.
        context: gives each write its timestamp.
        budget: the bound.
        send_old_values: give the flush listener the value below before the flush. Costs one batched read a flush.
    """

    def __init__(
        self,
        inner: BytesStore,
        context: RecordContext,
        budget: CacheBudget | None = None,
        *,
        send_old_values: bool = False,
    ) -> None:
        super().__init__(inner)
        self._context = context
        self._budget = budget or CacheBudget()
        self._send_old_values = send_old_values
        self._rows: OrderedDict[bytes, bytes | None] = OrderedDict()
        self._dirty: dict[bytes, int] = {}  # key -> timestamp, in the order of the last write
        self._dirty_sorted: SortedSet[bytes] | None = None
        self._has_deletions = False
        self._metadata: dict[bytes, bytes | None] = {}
        self._listener: FlushListener | None = None
        self._lock = threading.RLock()
        self._inner_get = inner.get
        self._closed = False
        self._changes = 0  # incremented by each write that may make a value that a reader has just read stale
        self.hits = 0
        self.misses = 0
        self.evictions = 0

    @property
    def budget(self) -> CacheBudget:
        """The bound, and its current use."""
        return self._budget

    @property
    def cached_entries(self) -> int:
        """How many rows are cached, clean or not."""
        return len(self._rows)

    def on_flush(self, listener: FlushListener | None) -> None:
        """Sets the listener that gets changes when they are flushed, in write order; None removes it."""
        self._listener = listener

    def get(self, key: bytes) -> bytes | None:
        """The value, from the cache if it is there; a value read from below is cached."""
        value = self._rows.get(key, _MISSING)
        if value is not _MISSING:
            self.hits += 1
            try:  # noqa: SIM105 (suppress() would cost more than the look-up)
                self._rows.move_to_end(key)
            except KeyError:  # just evicted by the writer's thread
                pass
            return value  # type: ignore[return-value]
        self.misses += 1
        changes = self._changes
        value = self._inner_get(key)
        if value is not None:
            with self._lock:
                # The value may be stale if the writer wrote in between, even if its row is no longer cached.
                if changes == self._changes:
                    self._admit(key, value)
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values, cached ones first and the rest in one call below; a bulk read evicts nothing."""
        rows = self._rows
        if not rows or rows.keys().isdisjoint(keys):
            self.misses += len(keys)
            return self._inner.get_many(keys)
        lookup = rows.get
        values = [lookup(key, _MISSING) for key in keys]
        absent = [index for index, value in enumerate(values) if value is _MISSING]
        self.hits += len(keys) - len(absent)
        self.misses += len(absent)
        for index, value in zip(absent, self._inner.get_many([keys[index] for index in absent]), strict=True):
            values[index] = value
        return values  # type: ignore[return-value]

    def put_clean(self, key: bytes, value: bytes) -> None:
        """Caches a row that the store below has already.

        Raises:
            InvalidArgumentError: a write to the key is waiting; a clean row must not hide it.
        """
        with self._lock:
            if key in self._dirty:
                msg = f"a write to the key {key!r} is waiting in store {self.name}: flush it first"
                raise InvalidArgumentError(msg)
            self._forget(key)
            self._admit(key, value)

    def drop(self, key: bytes) -> bytes | None:
        """Forgets a cached row without touching the store below, and returns its value."""
        with self._lock:
            value = self._rows.get(key)
            self._forget(key)
            return value

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Caches the writes. They reach the store below with the next flush, or when the cache is full.

        A batch of `BULK_ROWS` or more reaches it at once.
        """
        if self._closed:
            msg = f"store {self.name} is closed; open it again first"
            raise StoreClosedError(msg)
        with self._lock:
            self._changes += 1
            if isinstance(entries, list) and len(entries) >= BULK_ROWS:
                self._pass_through(entries, metadata)
                return
            if metadata:
                self._metadata.update(metadata)
            for key, value in entries:
                self._put(key, value)
            if self._budget.exceeded:
                self._evict()

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        """Rows of the store below with the waiting writes merged in, as of the moment of the call."""
        with self._lock:
            changes = self._changes_between(start, stop, reverse=reverse)
            rows = self._inner.scan(start, stop, reverse=reverse)
        return overlaid(changes, rows, self.open_iterators, reverse=reverse) if changes else rows

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Drops the range from the cache and deletes it below at once, waiting writes included."""
        with self._lock:
            self._changes += 1
            for key in [key for key in self._rows if start <= key < stop]:
                self._forget(key)
            self._inner.delete_range(start, stop)

    def metadata(self, key: bytes) -> bytes | None:
        """The entry, waiting ones included."""
        waiting = self._metadata.get(key, _MISSING)
        return self._inner.metadata(key) if waiting is _MISSING else waiting  # type: ignore[return-value]

    def approximate_num_entries(self) -> int:
        """The count of the store below: waiting writes are not counted."""
        return self._inner.approximate_num_entries()

    def flush(self) -> None:
        """Sends every waiting write down, notifies the listener, and flushes the store below.

        Raises:
            DiskFullError: nothing was lost: the writes go on waiting.
        """
        self.send_down()
        self._inner.flush()

    def send_down(self) -> None:
        """Sends every waiting write to the store below, without flushing that, and notifies the listener."""
        with self._lock:
            self._send_down()

    def evict_one(self) -> None:
        """Evicts the least recently used row; if its write still waits, sends the waiting writes down first."""
        with self._lock:
            key = next(iter(self._rows), None)
            if key is None:
                return
            if key in self._dirty:
                self._send_down()
            if key in self._rows:
                self._forget(key)
            self.evictions += 1

    def close(self) -> None:
        """Flushes and closes. Safe to call twice.

        Raises:
            DiskFullError: the waiting writes could not be sent down; the store stays open.
        """
        if self._closed:
            return
        if self._inner.is_open:
            self.send_down()
        self._closed = True
        with self._lock:
            for key in list(self._rows):
                self._forget(key)
        self._inner.close()

    def _admit(self, key: bytes, value: bytes) -> None:
        """Caches a value read from below, unless the writer was quicker."""
        if key in self._rows:
            return
        self._rows[key] = value
        budget = self._budget
        budget.used_bytes += len(key) + len(value) + ENTRY_OVERHEAD_BYTES
        budget.entries += 1
        if budget.exceeded:
            self._evict()

    def _put(self, key: bytes, value: bytes | None) -> None:
        rows = self._rows
        budget = self._budget
        old = rows.get(key, _MISSING)
        if old is _MISSING:
            budget.entries += 1
            budget.used_bytes += len(key) + ENTRY_OVERHEAD_BYTES + (len(value) if value else 0)
        else:
            budget.used_bytes += (len(value) if value else 0) - (len(old) if old else 0)  # type: ignore[arg-type]
            rows.move_to_end(key)
        rows[key] = value
        if value is None:
            self._has_deletions = True
        self._dirty.pop(key, None)
        self._dirty[key] = self._context.timestamp_ms
        if self._dirty_sorted is not None:
            self._dirty_sorted.add(key)

    def _pass_through(self, batch: list[Entry], metadata: Mapping[bytes, bytes | None]) -> None:
        """Sends a batch down after all waiting writes, and drops its keys from the cache."""
        if self._dirty or self._metadata:
            self._send_down()
        keys = [key for key, _ in batch]
        if not self._rows.keys().isdisjoint(keys):
            for key in self._rows.keys() & set(keys):
                self._forget(key)
        if self._listener is None:
            self._inner.write(batch, metadata)
            return
        last: dict[bytes, bytes | None] = dict(batch)
        old = dict(zip(last, self._inner.get_many(list(last)), strict=True)) if self._send_old_values else {}
        self._inner.write(batch, metadata)
        self._listener([(key, value, old.get(key)) for key, value in last.items()])

    def _evict(self) -> None:
        while self._rows and self._budget.exceeded:
            excess = self._budget.excess_entries
            if excess == 1:
                self.evict_one()
            else:
                self._evict_oldest(min(excess, len(self._rows)))

    def _evict_oldest(self, count: int) -> None:
        """Evicts many rows at a time: a batch may displace as many rows as it adds."""
        rows = self._rows
        victims = list(islice(rows, count))
        if not self._dirty.keys().isdisjoint(victims):
            self._send_down()
            victims = [key for key in victims if key in rows]  # deletions are gone once they are below
        values = list(map(rows.pop, victims))
        self._budget.entries -= len(victims)
        self._budget.used_bytes -= (
            len(victims) * ENTRY_OVERHEAD_BYTES + sum(map(len, victims)) + sum(map(len, values))  # type: ignore[arg-type]
        )
        self.evictions += count

    def _forget(self, key: bytes) -> None:
        value = self._rows.pop(key, _MISSING)
        if value is _MISSING:
            return
        self._budget.entries -= 1
        self._budget.used_bytes -= len(key) + ENTRY_OVERHEAD_BYTES + (len(value) if value else 0)  # type: ignore[arg-type]
        if self._dirty.pop(key, None) is not None and self._dirty_sorted is not None:
            self._dirty_sorted.discard(key)

    def _changes_between(self, start: bytes | None, stop: bytes | None, *, reverse: bool) -> list[Entry]:
        if not self._dirty:
            return []
        if self._dirty_sorted is None:
            self._dirty_sorted = SortedSet(self._dirty)
        if start is not None and stop is not None and start >= stop:
            return []
        rows = self._rows
        keys = self._dirty_sorted.irange(start, stop, inclusive=(True, False), reverse=reverse)
        return [(key, rows[key]) for key in keys]

    def _send_down(self) -> None:
        dirty = self._dirty
        if not dirty and not self._metadata:
            return
        entries: list[Entry] = list(zip(dirty, map(self._rows.__getitem__, dirty), strict=True))
        old = self._old_values(entries)
        deleted: list[bytes] = []
        if self._has_deletions:
            # A deletion of a row that the store below doesn't have changes nothing and needs no tombstone.
            deleted = [key for key, value in entries if value is None]
            entries = [entry for entry in entries if entry[1] is not None or old[entry[0]] is not None]
        if isinstance(self._inner, ChangeLoggingStore):
            stamps = [dirty[key] for key, _ in entries] if deleted else list(dirty.values())
            self._inner.write_stamped(entries, stamps, self._metadata)
        else:
            self._inner.write(entries, self._metadata)
        self._dirty, self._dirty_sorted, self._metadata, self._has_deletions = {}, None, {}, False
        for key in deleted:
            self._forget(key)
        if self._listener is not None:
            send_old = self._send_old_values
            self._listener([(key, value, old.get(key) if send_old else None) for key, value in entries])

    def _old_values(self, entries: list[Entry]) -> dict[bytes, bytes | None]:
        """Values below: of all keys if the listener gets old values, else of the deleted keys."""
        everything = self._listener is not None and self._send_old_values
        if not everything and not self._has_deletions:
            return {}
        keys = [key for key, value in entries if everything or value is None]
        return dict(zip(keys, self._inner.get_many(keys), strict=True)) if keys else {}
