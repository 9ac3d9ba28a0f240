"""What readers see of a replica: its rows and how fresh they are. Any thread reads while one thread follows.

Answers made from rows, kept until their row changes: the follower drops a key when it writes it.

Readers fill the cache while the follower writes, without a lock between them. Stale entries are kept out as follows.
The follower first writes the row, then increases `Replica.writes`, then drops the key. A reader notes `writes`, reads
the row, puts its entry, and drops it again if `writes` has changed. So a stale entry is dropped by the follower, if it
was put before the follower's drop, or by the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NoReturn

from storekeeper.changelog.checkpoint import METADATA_KEY, Checkpoint
from storekeeper.errors import (
    IteratorClosedError,
    StoreClosedError,
    StoreCorruptedError,
    StoreRestoringError,
    StoreUnavailableError,
)
from storekeeper.node.replicas.ranked_index import RankedIndex
from storekeeper.protocol.replica_freshness import FreshnessTracker, ReplicaFreshness
from storekeeper.protocol.replica_states import ReplicaId, ReplicaRole, ReplicaState
from storekeeper.stores.bytes_store import BytesStore
from storekeeper.stores.row import ReplicaRow, decode_row

_ENTRY_BYTES = 250  # an entry's place in a table, its tuple and the headers of two objects

Cached = tuple[Any, bytes, int, bool]
"""The replica, the answer made from its row, where in it the row itself begins, and whether there is a row."""


class RowCache:
    """Bounded: when the newer half is full, the older half is forgotten. One thread puts, another one drops.

    Attributes:
        hits: rows that were answered from here; the putting thread counts them.
        misses: rows that were read from the store instead.
    """

    def __init__(self, max_bytes: int) -> None:
        self.hits = self.misses = 0
        self._half_bytes = max_bytes // 2
        self._bytes = 0
        self._young: dict[bytes, Cached] = {}
        self._old: dict[bytes, Cached] = {}

    def get(self, key: bytes) -> Cached | None:
        """The entry at `key`, or None."""
        return self._young.get(key) or self._old.get(key)

    def put(self, key: bytes, entry: Cached) -> None:
        """Adds an entry. The putting thread only."""
        size = len(key) + len(entry[1]) + _ENTRY_BYTES
        if size > self._half_bytes:
            return
        if self._bytes + size > self._half_bytes:
            self._old, self._young, self._bytes = self._young, {}, 0
        self._young[key] = entry
        self._bytes += size

    def drop(self, keys: Iterable[bytes]) -> None:
        """Drops entries."""
        if self._young or self._old:
            for key in keys:
                # The older half first and last: an entry may move from the newer half to it between two lines.
                self._old.pop(key, None)
                self._young.pop(key, None)
                self._old.pop(key, None)

    def clear(self) -> None:
        """Drops everything."""
        self._young, self._old = {}, {}


_INDEX_CHUNK_ROWS = 512
ReadRow = Callable[[bytes], ReplicaRow]


class ReplicaRows:
    """Reads from the store while it is open and served. `Replica` opens, fills and closes it.

    `replica_id` and `topic` never change. `role` may change at any time; nothing else depends on it.

    Attributes:
        replica_id: which.
        topic: its changelog.
        role: whether queries prefer it.
        tracker: the freshness of the rows.
        index: kept in step with the rows while the store is open; None if there is none.
        cache: answers made from rows; an answer is dropped when its row changes. None if there is none.
        read_row: how a row that is asked for is read.
        writes: increases after a row has changed and before the cache drops it.
        state: what it is doing now.
        serving: whether reads are answered now.
        damaged: whether a read found damage, so that the store must be set aside.
        shown_offset: rows that were read before this attribute contain no record at this changelog offset or later.
    """

    def __init__(
        self,
        replica_id: ReplicaId,
        topic: str,
        *,
        role: ReplicaRole,
        tracker: FreshnessTracker,
        index: RankedIndex | None,
        cache: RowCache | None,
        read_row: ReadRow,
    ) -> None:
        self.replica_id = replica_id
        self.topic = topic
        self.role = role
        self.tracker = tracker
        self.index = index
        self.cache = cache
        self.read_row = read_row
        self.writes = 0
        self.state = ReplicaState.CREATED
        self._store: BytesStore | None = None
        self.serving = False
        self.damaged = False
        self._error: str | None = None
        self._checkpoint: Checkpoint | None = None
        self._end_offset: int | None = None
        self.shown_offset = 0
        self._topic_lost: str | None = None
        self._records_lost: str | None = None
        self._records_missing: str | None = None

    @property
    def lost(self) -> str | None:
        """Why the rows may be the last copy: the broker doesn't have their topic, or all its records, any more.

        None if it has. While there is a reason, rows may be missing here, and nobody knows which.
        """
        return self._topic_lost or self._records_lost or self._records_missing

    @property
    def is_open(self) -> bool:
        """Whether its store is open, so that `resume` may be enough instead of `open`."""
        return self._store is not None

    @property
    def offset(self) -> int | None:
        """Next changelog offset to apply; None before the replica was opened."""
        return None if self._checkpoint is None else self._checkpoint.offset

    @property
    def offset_lag(self) -> int | None:
        """How many records are missing at most; None while unknown."""
        checkpoint, end, reported = self._checkpoint, self._end_offset, self.tracker.end_offset
        return None if checkpoint is None or end is None else max(0, max(end, reported) - checkpoint.offset)

    def freshness(self, at_s: float) -> ReplicaFreshness:
        """The freshness that a row has at least if it is read after this call. Staleness counts from `at_s` on the
        monotonic clock: when the request arrived.
        """
        offset = self.offset or 0
        end = self.tracker.end(at_s)
        return ReplicaFreshness(
            topic=self.topic,
            partition=self.replica_id.partition,
            role=self.role,
            caught_up=self.serving,
            offset=offset,
            offset_lag=None if end is None else max(0, end[0] - offset),
            end_age_ms=None if end is None else end[1],
            staleness_ms=self.tracker.staleness_ms(at_s),
            source=self.tracker.source(),
        )

    def get(self, key: bytes, *, restoring: bool = False) -> ReplicaRow | None:
        """The row at `key`, or None if there is none. With `restoring`, the row may be old or not restored yet.

        Raises:
            StoreRestoringError: not caught up yet.
            StoreUnavailableError: it can't answer now, or see `check_absence`.
            StoreCorruptedError: the row is damaged; the replica will be rebuilt, ask another one.
        """
        store = self._store
        if store is None or not (self.serving or restoring):
            self._refuse()
        try:
            row = store.get(key)
            if row is not None:
                return self.read_row(row)
        except StoreCorruptedError:
            self.damaged = True
            raise
        except StoreClosedError:
            self._refuse()
        self.check_absence()
        return None

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, ReplicaRow | None]:
        """The rows at `keys`, None for a key that has none. A key of which nobody knows that is left out: see `lost`.

        Raises StoreRestoringError, StoreUnavailableError and StoreCorruptedError as `get` does.
        """
        store = self._store
        if store is None or not self.serving:
            self._refuse()
        try:
            read_row = self.read_row
            rows = {
                key: None if row is None else read_row(row) for key, row in zip(keys, store.get_many(keys), strict=True)
            }
        except StoreCorruptedError:
            self.damaged = True
            raise
        except StoreClosedError:
            self._refuse()
        return rows if self.lost is None else {key: row for key, row in rows.items() if row is not None}

    def check_absence(self) -> None:
        """Checks that a key without a row here has none.

        Raises:
            StoreUnavailableError: the log is lost, so nobody knows that.
        """
        if self.lost is not None:
            msg = f"the key is not among the rows that {self.replica_id} still has: {self.lost}"
            raise StoreUnavailableError(msg)

    @contextmanager
    def scan(
        self, start: bytes | None, stop: bytes | None, *, reverse: bool = False
    ) -> Iterator[Iterator[tuple[bytes, ReplicaRow]]]:
        """The current rows with `start <= key < stop`, in key order or backwards. Rows may be missing: see `lost`.

        Raises StoreRestoringError, StoreUnavailableError and StoreCorruptedError as `get` does.
        """
        with self._scan(start, stop, self.read_row, reverse=reverse) as rows:
            yield rows

    @contextmanager
    def _scan(
        self, start: bytes | None, stop: bytes | None, read_row: ReadRow, *, reverse: bool = False
    ) -> Iterator[Iterator[tuple[bytes, ReplicaRow]]]:
        store = self._store
        if not self.serving or store is None:
            self._refuse()
        try:
            with store.scan(start, stop, reverse=reverse) as rows:
                yield ((key, read_row(row)) for key, row in rows)
        except StoreCorruptedError:
            self.damaged = True
            raise
        except (StoreClosedError, IteratorClosedError):
            self._refuse()

    @contextmanager
    def scan_at_offset(self) -> Iterator[tuple[int, Iterator[tuple[bytes, ReplicaRow]]]]:
        """All rows as they are stored, and the exact changelog offset (next to be applied) that they are at.

        Raises as `get` does.

        It is exact if a scan shows the rows as of its beginning, as with RocksDB but not with the memory store.
        """
        while True:
            before = self._stored_offset()
            with self._scan(None, None, decode_row) as rows:
                # Rows and offset are written together: if the offset hasn't changed, the scan is at it.
                if before == self._stored_offset():
                    yield before, rows
                    return

    def property_int(self, name: str) -> int | None:
        """A property of the store's backend, None where it has none of that name or isn't open."""
        property_int = getattr(self._store, "property_int", None)
        try:
            return None if property_int is None else property_int(name)
        except StoreClosedError:
            return None

    def open_iterators(self) -> int:
        """How many scans of its rows are open."""
        store = self._store
        return 0 if store is None else len(store.open_iterators)

    def _stored_offset(self) -> int:
        stored = None if self._store is None else self._store.metadata(METADATA_KEY)
        if stored is None:
            self._refuse()
        return Checkpoint.decode(stored).offset

    def _rebuild_index(self, store: BytesStore) -> None:
        """Reads the whole store, in steps small enough to let other threads run."""
        if self.index is None:
            return
        self.index.clear()
        with store.scan(None, None) as rows:
            while chunk := [(key, decode_row(row).value) for key, row in islice(rows, _INDEX_CHUNK_ROWS)]:
                self.index.apply(chunk)
        self.index.built()

    def _release(self) -> None:
        self.serving = False
        self.writes += 1
        if self.cache is not None:
            self.cache.clear()
        if self.index is not None:
            self.index.clear()
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _refuse(self) -> NoReturn:
        if self.state in {ReplicaState.CREATED, ReplicaState.RESTORING}:
            msg = f"replica {self.replica_id} has not caught up with its changelog yet: ask again later"
            raise StoreRestoringError(msg)
        msg = f"replica {self.replica_id} can't answer now: {self._error or self.state.value.lower()}"
        raise StoreUnavailableError(msg)
