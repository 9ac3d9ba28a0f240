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
from storekeeper.serdes.struct import bare_deserialize, bare_serialize
from storekeeper.serdes.timestamped import STAMP_BYTES, TimestampedSerde, ValueAndTimestamp, stamp_of, stamped
from storekeeper.stores.bytes_store import NO_METADATA, BytesStore, Entry
from storekeeper.stores.expiry_index import ExpiryIndexStore, put_at_ms, unstamped
from storekeeper.stores.iterators import Row
from storekeeper.stores.key_value import KeyValueStore
from storekeeper.stores.layers import StateStore, StoreLayers
from storekeeper.stores.memory import LruStore, MemoryStore
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.segmented import SegmentedStore, session_segments, window_segments
from storekeeper.stores.session import SessionStore
from storekeeper.stores.stream_time import TimedStore
from storekeeper.stores.suppliers import StoreSupplier
from storekeeper.stores.transaction import TransactionStore
from storekeeper.stores.ttl import TtlKeyValueStore, keep_ttl, with_ttl
from storekeeper.stores.versioned import VersionedKeyValueStore, version_index
from storekeeper.stores.window import WindowStore
from storekeeper.topology.cells import Cell, CellsAbove, SessionCells, WindowCells
from storekeeper.topology.records import StoreChange
from storekeeper.topology.store import StoreKind
from storekeeper.topology.topology_store import TopologyStore
from storekeeper.topology.version_cells import VersionCells

V = TypeVar("V")
Guarded = Callable[..., Serde[Any]]
"""`guarded(serde, place=None)`: the serde, whose errors tell what is to blame, and where the value was to go."""
_changed: Callable[[tuple[Any, ...]], StoreChange] = partial(tuple.__new__, StoreChange)
"""`StoreChange` of its fields. One is made for each row: the class itself takes three times as long."""
_WITH_CELLS = {StoreKind.WINDOW, StoreKind.SESSION, StoreKind.VERSIONED}
Stamp = tuple[int, bytes | None]
"""Time, and `traceparent`, of the record that wrote a row."""


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
        self._encode_key, self._decode_key = bare_serialize(keys), keys.deserialize
        # What is put has been checked.
        self._encode = Trusted(values).serialize
        self._decode = bare_deserialize(values)
        self._cells: dict[bytes, Cell] = {}
        self._changed: list[Cell] = []
        self._encoded: dict[bytes, tuple[V, bytes]] = {}
        self._pending: list[Entry] = []
        self._bounded = inner if isinstance(inner, LruStore) else None

    def cell(self, key: Any) -> Cell:
        """The cell of a row. Only `write` may change it."""
        data = self._encode_key(key)
        return self._cells.get(data) or self._load(data)

    def value(self, key: Any) -> V | None:
        """The value of a row, or None."""
        data = self._encode_key(key)
        value: V | None = (self._cells.get(data) or self._load(data)).value
        return value

    def get(self, key: Any) -> ValueAndTimestamp[V] | None:
        """The row, or None."""
        cell = self.cell(key)
        return None if cell.value is None else ValueAndTimestamp(cell.value, cell.timestamp_ms)

    def key_bytes(self, key: Any) -> bytes:
        """The bytes of a key."""
        return self._encode_key(key)

    def as_read(self, value: V | None) -> V | None:
        """A value that was put, as it is read. None stays None."""
        return value if value is None or self._is_plain(value) else self._as_read(value)[0]

    def write(self, cell: Cell, value: V | None, timestamp_ms: int) -> V | None:
        """Sets or, with None, deletes a row. Returns the value as it will be read.

        Raises:
            SerializationError: the value would not read back equal. Nothing is written.
        """
        if value is None:
            timestamp_ms = self._context.timestamp_ms
        elif not self._is_plain(value):
            value = self._value_as_read(cell.key, value)
        cell.value, cell.timestamp_ms, cell.trace = value, timestamp_ms, self._context.trace
        if not cell.changed:
            cell.changed = True
            self._changed.append(cell)
        return value

    def put(self, key: Any, row: ValueAndTimestamp[V] | None) -> ValueAndTimestamp[V] | None:
        """Writes the row, whatever is there; None deletes it. Returns the row as it will be read.

        Raises:
            SerializationError: the value would not read back equal. Nothing is written.
        """
        data = self._encode_key(key)
        cell = self._cells.get(data)
        if cell is None:
            cell = self._cells[data] = Cell(data)
        if row is None:
            self.write(cell, None, 0)
            return None
        value = self.write(cell, row.value, row.timestamp_ms)
        return row if value is row.value or value is None else ValueAndTimestamp(value, row.timestamp_ms)

    def _load(self, key: bytes) -> Cell:
        stored = self._read(key)
        cell = self._cells[key] = (
            Cell(key) if stored is None else Cell(key, self._decode(stored[STAMP_BYTES:]), stamp_of(stored))
        )
        return cell

    def _value_as_read(self, key: bytes, value: V) -> V:
        try:
            value, data = self._as_read(value)
        except SerializationError as error:
            name_row(error, f"store {self.spec.name}", self._decode_key(key))
            raise
        self._encoded[key] = (value, data)
        return value

    def all(self) -> Iterator[tuple[Any, ValueAndTimestamp[V]]]:
        """All rows, in the order of their serialized keys."""
        with self._inner.scan(None, None) as stored:
            rows = {key: (self._decode(data[STAMP_BYTES:]), stamp_of(data)) for key, data in stored}
        rows |= {cell.key: (cell.value, cell.timestamp_ms) for cell in self._changed}
        return (
            (self._decode_key(key), ValueAndTimestamp(*rows[key])) for key in sorted(rows) if rows[key][0] is not None
        )

    def evict(self) -> None:
        """Deletes the rows of a bounded store that are too many when the batch ends."""
        if self._bounded is not None:
            changed = [(cell.key, None if cell.value is None else b"") for cell in self._changed]
            self._delete(self._bounded.excess(changed))

    def _delete(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self.write(self._cells.setdefault(key, Cell(key)), None, 0)

    def changes(self) -> Iterable[StoreChange]:
        """The last change of each row."""
        encode, name, pending = self._encode, self.spec.name, self._pending.append
        for cell in self._changed:
            key, value = cell.key, cell.value
            data = None
            if value is not None:
                known = self._encoded.get(key)
                data = known[1] if known is not None and known[0] is value else encode(value)
            pending((key, stamped(data, cell.timestamp_ms)))
            yield _changed((name, key, data, cell.timestamp_ms, cell.trace or None))

    def apply(self, metadata: Mapping[bytes, bytes | None]) -> None:
        """Writes the changes to the store below."""
        if self._pending or metadata:
            self._inner.write(self._pending, metadata)
        self._pending = []
        self._cells.clear()
        self._changed.clear()
        self._encoded.clear()

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
        self.context = context
        self._stamps: dict[bytes, Stamp] = {}

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Adds writes of the record under way."""
        rows = entries if isinstance(entries, tuple) else list(entries)
        self.write_stamped(rows, [(self.context.timestamp_ms, self.context.trace)] * len(rows), metadata)

    def write_stamped(
        self, rows: Sequence[Entry], stamps: Iterable[Stamp], metadata: Mapping[bytes, bytes | None]
    ) -> None:
        """Adds writes of other records."""
        super().write(rows, metadata)
        self._stamps.update(zip((key for key, _ in rows), stamps, strict=True))

    def changes(self) -> Iterable[tuple[bytes, bytes | None, Stamp]]:
        """The last change of each row, and the stamp of its record."""
        return [(key, value, self._stamps[key]) for key, value in self.pending]

    def settle(self) -> None:
        """Nothing waits above."""

    def forget(self) -> None:
        """Nothing waits above."""

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
        self._segments = arranged if isinstance(arranged, SegmentedStore) else None
        may_have_cells = spec.kind in _WITH_CELLS and not spec.retain_duplicates
        self._top = CellsAbove(self._transaction) if may_have_cells else self._transaction
        index = arranged if isinstance(arranged, ExpiryIndexStore) else None
        layers = StoreLayers(top=self._top, restore_target=arranged, expiry_index=index)
        self._keys = guarded(spec.key_serde)
        self._values = guarded(spec.value_serde if spec.internal else round_trip(spec.value_serde))
        self.store: StateStore[Any, Any] = _typed(spec, layers, self._keys, self._values)
        self._due: Sequence[bytes] = ()
        self._bounded = inner if isinstance(inner, LruStore) else None

    def evict(self) -> None:
        """Deletes the rows of a bounded store that are too many when the batch ends."""
        if self._bounded is not None:
            self._transaction.write([(key, None) for key in self._bounded.excess(self._transaction.pending)])

    def cells(self) -> WindowCells | SessionCells | VersionCells:
        """The rows of a window, session or versioned store as cells, for the operator that alone writes them."""
        if isinstance(self.store, SessionStore):
            return SessionCells(self.store, self._keys, self._values, self._top)
        if isinstance(self.store, VersionedKeyValueStore):
            return VersionCells(self.store, self._keys, self._values, self._top)
        assert isinstance(self.store, WindowStore)  # noqa: S101 (no other kind is asked)
        return WindowCells(self.store, self._keys, self._values, self._top)

    def changes(self) -> Iterable[StoreChange]:
        """The last change of each row; then tombstones of the rows that expire with this batch.

        Of a versioned store, versions that no query can reach any more are among them.

        A row that the batch has written and that expires with it does not outlive the batch.
        """
        self._top.settle()
        if isinstance(self.store, VersionedKeyValueStore):
            self._due = self.store.delete_unreachable(len(self._transaction.pending))
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
    store = typed(spec, inner, context, partial(guarded, place=f"store {spec.name}"))
    if isinstance(store.store, TimedStore):
        store.store.stream_time.latest_ms = LAST_TIMESTAMP_MS
    return store


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


def _typed(spec: TopologyStore, layers: StoreLayers, keys: Serde[Any], values: Serde[Any]) -> StateStore[Any, Any]:
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
