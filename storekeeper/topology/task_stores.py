"""The stores of one task. Reads see the batch's own writes; the stores below get them when the batch is applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from storekeeper.changelog.skipped import LAST_TIMESTAMP_MS
from storekeeper.errors import SerializationError
from storekeeper.serdes.keys.versions import version_timestamp_ms
from storekeeper.serdes.round_trip import RoundTrip, Trusted, name_row, round_trip
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.timestamped import STAMP_BYTES, TimestampedSerde, ValueAndTimestamp, stamp_of, stamped
from storekeeper.stores.bytes_store import NO_METADATA, BytesStore, Entry
from storekeeper.stores.expiry_index import ExpiryIndexStore, put_at_ms, unstamped
from storekeeper.stores.iterators import Row
from storekeeper.stores.key_value import KeyValueStore
from storekeeper.stores.layers import StateStore, StoreLayers
from storekeeper.stores.lru import LruStore
from storekeeper.stores.memory import MemoryStore
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.segmented import SegmentedStore, session_segments, window_segments
from storekeeper.stores.session import SessionStore
from storekeeper.stores.stream_time import TimedStore
from storekeeper.stores.suppliers import StoreSupplier
from storekeeper.stores.transaction import TransactionStore
from storekeeper.stores.ttl import TtlKeyValueStore, keep_ttl, with_ttl
from storekeeper.stores.versioned import VersionedKeyValueStore, version_index
from storekeeper.stores.window import WindowStore
from storekeeper.topology.cells import CellsAbove, SessionCells, WindowCells
from storekeeper.topology.records import StoreChange
from storekeeper.topology.store import StoreKind
from storekeeper.topology.topology_store import TopologyStore

V = TypeVar("V")
Guarded = Callable[..., Serde[Any]]
"""`guarded(serde, place=None)`: the serde, whose errors tell what is to blame, and where the value was to go."""
Stamp = tuple[int, bytes | None]
"""Time, and `traceparent`, of the record that wrote a row."""
_UNREAD: Any = object()


class TableRows(Generic[V]):
    """The rows of a table. They stay decoded while a batch runs, and are encoded once, when it ends.

    A batch sees each row as the next batch will read it. So values must not be mutated: a function returns a new one
    and leaves its argument unchanged.
    """

    def __init__(
        self, spec: TopologyStore, inner: BytesStore, context: RecordContext, guarded: Guarded = lambda serde: serde
    ) -> None:
        keys = guarded(spec.key_serde)
        # Only an operator puts values into its own store, and it knows that they read back.
        known = Trusted(spec.value_serde) if spec.internal else round_trip(spec.value_serde)
        values: RoundTrip[V] = round_trip(guarded(known))
        self.spec = spec
        self._is_plain, self._as_read = values.is_plain, values.as_read
        self._inner = inner
        self._read = inner.get
        self._context = context
        self._encode_key = keys.serialize
        self._decode_key = keys.deserialize
        # What is put has been checked.
        serde: Serde[ValueAndTimestamp[V]] = TimestampedSerde(Trusted(values))
        self._encode, self._decode = serde.serialize, serde.deserialize
        self._rows: dict[bytes, ValueAndTimestamp[V] | None] = {}
        self._encoded: dict[bytes, tuple[ValueAndTimestamp[V], bytes]] = {}
        self._last_key: Any = None
        self._last_data = b""
        self._changed: dict[bytes, int] = {}
        self._traces: dict[bytes, bytes] = {}
        self._pending: list[Entry] = []
        self._bounded = inner if isinstance(inner, LruStore) else None

    def get(self, key: Any) -> ValueAndTimestamp[V] | None:
        """The row, or None."""
        data = self._last_data = self._encode_key(key)
        self._last_key = key
        row = self._rows.get(data, _UNREAD)
        if row is _UNREAD:
            stored = self._read(data)
            row = self._rows[data] = None if stored is None else self._decode(stored)
        return row

    def key_bytes(self, key: Any) -> bytes:
        """The bytes of a key."""
        # Most writes follow a read of the same key.
        return self._last_data if key is self._last_key else self._encode_key(key)

    def as_read(self, value: V | None) -> V | None:
        """A value that was put, as it is read. None stays None."""
        return value if value is None or self._is_plain(value) else self._as_read(value)[0]

    def put(self, key: Any, row: ValueAndTimestamp[V] | None) -> ValueAndTimestamp[V] | None:
        """Writes the row; None deletes it.

        Returns:
            The row as it will be read.

        Raises:
            SerializationError: the value would not read back equal. Nothing is written.
        """
        data = self._last_data if key is self._last_key else self._encode_key(key)
        if row is not None and not self._is_plain(row.value):
            row = self._row_as_read(data, row)
        self._rows[data] = row
        self._changed[data] = self._context.timestamp_ms if row is None else row.timestamp_ms
        trace = self._context.trace
        if trace is not None:
            self._traces[data] = trace
        return row

    def _row_as_read(self, key: bytes, row: ValueAndTimestamp[V]) -> ValueAndTimestamp[V]:
        try:
            value, data = self._as_read(row.value)
        except SerializationError as error:
            name_row(error, f"store {self.spec.name}", self._decode_key(key))
            raise
        row = ValueAndTimestamp(value, row.timestamp_ms)
        self._encoded[key] = (row, data)
        return row

    def all(self) -> Iterator[tuple[Any, ValueAndTimestamp[V]]]:
        """All rows, in the order of their serialized keys."""
        with self._inner.scan(None, None) as stored:
            rows: dict[bytes, Any] = {key: self._decode(data) for key, data in stored}
        rows |= {key: self._rows[key] for key in self._changed}
        return ((self._decode_key(key), rows[key]) for key in sorted(rows) if rows[key] is not None)

    def evict(self) -> None:
        """Deletes the rows of a bounded store that are too many when the batch ends."""
        if self._bounded is not None:
            self._delete(
                self._bounded.excess([(key, None if self._rows[key] is None else b"") for key in self._changed])
            )

    def _delete(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._rows[key] = None
            self._changed[key] = self._context.timestamp_ms

    def changes(self) -> Iterable[StoreChange]:
        """The last change of each row."""
        encode, rows, name, traces = self._encode, self._rows, self.spec.name, self._traces
        for key, timestamp_ms in self._changed.items():
            row = rows[key]
            if row is None:
                self._pending.append((key, None))
                yield StoreChange(name, key, None, timestamp_ms, traces.get(key) or None)
            else:
                known = self._encoded.get(key)
                if known is not None and known[0] is row:
                    data = stamped(known[1], row.timestamp_ms) or b""
                else:
                    data = encode(row)
                self._pending.append((key, data))
                yield StoreChange(name, key, data[STAMP_BYTES:], timestamp_ms, traces.get(key) or None)

    def apply(self, metadata: Mapping[bytes, bytes | None]) -> None:
        """Writes the changes to the store below."""
        if self._pending or metadata:
            self._inner.write(self._pending, metadata)
        self._rows, self._encoded, self._changed, self._traces, self._pending = {}, {}, {}, {}, []

    def metadata(self, key: bytes) -> bytes | None:
        """What was applied with the rows."""
        return self._inner.metadata(key)

    def close(self) -> None:
        """Closes the store below. Writes that were not applied are lost."""
        self._inner.close()


class StampedTransaction(TransactionStore):
    """A transaction that keeps time and trace of the record that wrote each row last."""

    def __init__(self, inner: BytesStore, context: RecordContext) -> None:
        super().__init__(inner)
        self._context = context
        self._stamps: dict[bytes, Stamp] = {}

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Adds writes of the record under way."""
        rows = entries if isinstance(entries, tuple) else list(entries)
        self.write_stamped(rows, [(self._context.timestamp_ms, self._context.trace)] * len(rows), metadata)

    def write_stamped(
        self, rows: Sequence[Entry], stamps: Iterable[Stamp], metadata: Mapping[bytes, bytes | None]
    ) -> None:
        """Adds writes of other records."""
        super().write(rows, metadata)
        for (key, _), stamp in zip(rows, stamps, strict=True):
            self._stamps[key] = stamp

    def changes(self) -> Iterable[tuple[bytes, bytes | None, Stamp]]:
        """The last change of each row, and the stamp of its record."""
        return [(key, value, self._stamps[key]) for key, value in self.pending]

    def stamp(self, key: bytes) -> Stamp:
        """The stamp of a row that was written."""
        return self._stamps[key]

    def abort(self) -> None:
        """Forgets the writes since the last commit."""
        super().abort()
        self._stamps = {}


class TypedStore:
    """A store of any kind whose writes wait in a transaction."""

    def __init__(
        self, spec: TopologyStore, inner: BytesStore, context: RecordContext, guarded: Guarded = lambda serde: serde,
        begin: Callable[[BytesStore, RecordContext], StampedTransaction] = StampedTransaction,
    ) -> None:  # fmt: skip
        self.spec = spec
        arranged = _arranged(spec, inner)
        if isinstance(arranged, ExpiryIndexStore) and spec.kind is StoreKind.TTL:
            keep_ttl(arranged, spec.retention_ms)
        self._transaction = begin(arranged, context)
        self._context = context
        self._segments = arranged if isinstance(arranged, SegmentedStore) else None
        self._top = CellsAbove(self._transaction)
        index = arranged if isinstance(arranged, ExpiryIndexStore) else None
        layers = StoreLayers(top=self._top, restore_target=arranged, expiry_index=index)
        self.store: StateStore[Any, Any] = _typed(spec, layers, guarded)
        self._due: Sequence[bytes] = ()
        self._bounded = inner if isinstance(inner, LruStore) else None

    def evict(self) -> None:
        """Deletes the rows of a bounded store that are too many when the batch ends."""
        if self._bounded is not None:
            self._transaction.write([(key, None) for key in self._bounded.excess(self._transaction.pending)])

    def cells(self) -> WindowCells | SessionCells:
        """The rows of a window or session store as cells, for the operator that alone writes them."""
        if isinstance(self.store, SessionStore):
            return SessionCells(self.store, self._top, self._transaction, self._context)
        assert isinstance(self.store, WindowStore)  # noqa: S101 (no other kind is asked)
        return WindowCells(self.store, self._top, self._transaction, self._context)

    def changes(self) -> Iterable[StoreChange]:
        """The last change of each row; then tombstones of the rows that expire with this batch.

        Of a versioned store, versions that no query can reach any more are among them.

        A row that the batch has written and that expires with it does not outlive the batch.
        """
        self._top.settle()
        if isinstance(self.store, VersionedKeyValueStore):
            self._due = self.store.delete_unreachable()
        elif isinstance(self.store, TtlKeyValueStore):
            self.store.expire_rows(self._transaction)
        name, logged = self.spec.name, _logged_of(self.spec)
        changed = self._transaction.changes()
        if self._segments is not None:
            is_expired, horizon_ms = self._segments.is_expired, self._horizon_ms
            changed = [change for change in changed if not is_expired(change[0], horizon_ms)]
        for key, value, (timestamp_ms, trace) in changed:
            if logged is not None and value is not None:
                yield StoreChange(name, key, *logged(key, value), trace or None)
            else:
                yield StoreChange(name, key, value, timestamp_ms, trace or None)
        if self._segments is not None:
            written = {key for key, _, _ in changed}
            for key in self._segments.expired_before(self._horizon_ms):
                if key not in written:
                    yield StoreChange(name, key, None, self._horizon_ms)

    def change_of(self, key: bytes) -> StoreChange:
        """The last change of a row that the batch has written."""
        value, logged = self._transaction.get(key), _logged_of(self.spec)
        if logged is not None and value is not None:
            return StoreChange(self.spec.name, key, *logged(key, value))
        return StoreChange(self.spec.name, key, value, self._transaction.stamp(key)[0])

    def apply(self, metadata: Mapping[bytes, bytes | None]) -> None:
        """Writes the changes to the store below, then lets expired rows go."""
        self._transaction.write((), metadata)
        self._transaction.commit()
        self._top.forget()
        if self._segments is not None:
            self._segments.expire_before(self._horizon_ms)
        if isinstance(self.store, VersionedKeyValueStore) and self._due:
            self.store.settle(self._due)
            self._due = ()

    @property
    def _horizon_ms(self) -> int:
        assert isinstance(self.store, WindowStore | SessionStore)  # noqa: S101 (only these have segments)
        return self.store.stream_time.oldest_live_ms

    def metadata(self, key: bytes) -> bytes | None:
        """What was applied with the rows."""
        return self._transaction.metadata(key)

    def close(self) -> None:
        """Closes the store below. Writes that were not applied are lost."""
        self.store.close()


def opened(
    spec: TopologyStore, supplier: StoreSupplier, context: RecordContext, guarded: Guarded,
    kinds: tuple[Callable[..., TableRows[Any]], Callable[..., TypedStore]] = (TableRows, TypedStore),
) -> TableRows[Any] | TypedStore:  # fmt: skip
    """The store of a task over its backend, with guarded serdes."""
    inner = supplier.open(spec.name)
    rows, typed = kinds
    if spec.timestamped and spec.kind is StoreKind.KEY_VALUE:
        return rows(spec, inner, context, guarded)
    found = typed(spec, inner, context, partial(guarded, place=f"store {spec.name}"))
    if isinstance(found.store, TimedStore):
        found.store.stream_time.latest_ms = LAST_TIMESTAMP_MS
    return found


def memory_store(spec: TopologyStore) -> BytesStore:
    """An empty store in the process's memory for a store's rows."""
    most = spec.options.max_rows
    return MemoryStore(spec.name) if most is None else LruStore(spec.name, most)


def restore(
    spec: TopologyStore,
    backend: BytesStore,
    changes: Iterable[StoreChange],
    metadata: Mapping[bytes, bytes | None] = NO_METADATA,
) -> None:
    """Writes changes from a store's changelog to its backend, before a task is built over it."""
    stored = _stored_of(spec)
    entries: list[Entry] = [
        (change.key, stored(change.value, change.timestamp_ms) if stored and change.value is not None else change.value)
        for change in changes
    ]
    if spec.timestamped and spec.kind is StoreKind.KEY_VALUE:
        backend.write(entries, metadata)
        return
    store: Any = TypedStore(spec, backend, RecordContext()).store
    store.restore_batch(entries, metadata)


def rows_as_logged(spec: TopologyStore, backend: BytesStore) -> Iterator[Row]:
    """The rows of a store by their keys, as its changelog has them."""
    logged = _logged_of(spec)
    with _arranged(spec, backend).scan(None, None) as rows:
        for key, value in rows:
            yield key, value if logged is None else logged(key, value)[0]


def _logged_of(spec: TopologyStore) -> Callable[[bytes, bytes], tuple[bytes, int]] | None:
    """What makes of a stored row the value and the timestamp of its changelog record.

    None: the value is the same, and the timestamp that of the record that was under way.
    """
    if spec.kind is StoreKind.TTL:
        return lambda _, data: (unstamped(data), put_at_ms(data))
    if spec.kind is StoreKind.VERSIONED:
        return lambda row_key, data: (data, min(version_timestamp_ms(row_key), LAST_TIMESTAMP_MS))
    return (lambda _, data: (data[STAMP_BYTES:], stamp_of(data))) if spec.timestamped else None


def _stored_of(spec: TopologyStore) -> Callable[[bytes, int], bytes | None] | None:
    """What makes the stored value of a changelog record's value and timestamp; None: it is the same."""
    if spec.kind is StoreKind.TTL:
        return lambda value, timestamp_ms: with_ttl(value, timestamp_ms, spec.retention_ms)
    return stamped if spec.timestamped else None


def _arranged(spec: TopologyStore, inner: BytesStore) -> BytesStore:
    if spec.kind is StoreKind.WINDOW:
        return window_segments(inner, spec.retention_ms)
    if spec.kind is StoreKind.SESSION:
        return session_segments(inner, spec.retention_ms)
    if spec.kind is StoreKind.VERSIONED:
        return version_index(inner)
    return ExpiryIndexStore(inner) if spec.kind is StoreKind.TTL else inner


def _typed(spec: TopologyStore, layers: StoreLayers, guarded: Guarded) -> StateStore[Any, Any]:
    keys = guarded(spec.key_serde)
    values = guarded(spec.value_serde if spec.internal else round_trip(spec.value_serde))
    values = TimestampedSerde(values) if spec.timestamped else values
    match spec.kind:
        case StoreKind.WINDOW:
            return WindowStore(
                layers, keys, values, window_size_ms=spec.window_size_ms, retention_ms=spec.retention_ms,
                retain_duplicates=spec.retain_duplicates,
            )  # fmt: skip
        case StoreKind.SESSION:
            return SessionStore(layers, keys, values, retention_ms=spec.retention_ms)
        case StoreKind.VERSIONED:
            return VersionedKeyValueStore(layers, keys, values, history_retention_ms=spec.retention_ms)
        case StoreKind.TTL:
            return TtlKeyValueStore(layers, keys, values, ttl_ms=spec.retention_ms)
        case _:
            return KeyValueStore(layers, keys, values)
