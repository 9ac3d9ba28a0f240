"""The stores of a task that runs its batch again: what one record has written can be taken back.

Rows are kept as bytes between records. So a function that fails, and has changed a row which it was given, has changed
a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from storekeeper.stores.bytes_store import NO_METADATA, BytesStore, Entry
from storekeeper.stores.memory import LruStore
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.stream_time import TimedStore
from storekeeper.stores.versioned import VersionedKeyValueStore
from storekeeper.topology.records import StoreChange
from storekeeper.topology.task_stores import Guarded, Stamp, StampedTransaction, TableRows, TypedStore
from storekeeper.topology.topology_store import TopologyStore
from storekeeper.topology.undo import LastWrites, Undo

Check = Callable[[StoreChange], None]
"""Raises an error for a change that the store's changelog would refuse."""


class CarefulTransaction(StampedTransaction):
    """A transaction whose writes can be taken back.

    Attributes:
        unchecked: the keys that were written and not yet checked.
    """

    def __init__(self, inner: BytesStore, context: RecordContext, undo: Undo) -> None:
        super().__init__(inner, context)
        self._undo = undo
        self._order = LastWrites(undo)
        self.unchecked: dict[bytes, None] = {}

    def write_stamped(
        self, rows: Sequence[Entry], stamps: Iterable[Stamp], metadata: Mapping[bytes, bytes | None]
    ) -> None:
        """Adds writes."""
        undo = self._undo
        for key, _ in rows:
            if key in self._rows:
                undo.item(self._rows, key)
            else:
                undo.add(self._take_out, key)
            undo.item(self._stamps, key)
            self._order.wrote(key)
            self.unchecked[key] = None
        for name in metadata:
            undo.item(self._metadata, name)
        super().write_stamped(rows, stamps, metadata)

    @property
    def pending(self) -> list[Entry]:
        """The uncommitted writes, the last one of each key, in their order."""
        return self._order.in_order(self._rows.items())

    def _take_out(self, key: bytes) -> None:
        if key in self._rows:
            del self._rows[key]
            if self._ordered is not None:
                self._ordered.remove(key)


class CarefulRows(TableRows):  # type: ignore[type-arg]
    """The rows of a table, over a transaction: decoded rows don't outlive the record that has read or written them."""

    def __init__(
        self, spec: TopologyStore, inner: BytesStore, context: RecordContext, guarded: Guarded,
        *, undo: Undo, check: Check,
    ) -> None:  # fmt: skip
        self._transaction = CarefulTransaction(inner, context, undo)
        super().__init__(spec, self._transaction, context, guarded)
        self._bounded = inner if isinstance(inner, LruStore) else None
        self._undo = undo
        self._check = check
        self._settled: dict[bytes, StoreChange] = {}

    def settle(self) -> None:
        """Checks and encodes what was written since the last call."""
        if not self._cells:
            return
        for change in super().changes():
            self._check(change)
            self._undo.item(self._settled, change.key)
            self._settled[change.key] = change
        super().apply(NO_METADATA)

    def forget(self) -> None:
        """Drops what was read and written since then."""
        self._pending.clear()
        super().apply(NO_METADATA)

    def evict(self) -> None:
        """Deletes the rows of a bounded store that are too many when the batch ends."""
        self.settle()
        if self._bounded is not None:
            self._delete(self._bounded.excess(self._transaction.pending))

    def changes(self) -> Iterable[StoreChange]:
        """The last change of each row."""
        self.settle()
        return self._settled.values()

    def apply(self, metadata: Mapping[bytes, bytes | None]) -> None:
        """Writes the changes to the store below."""
        self._transaction.write((), metadata)
        self._transaction.commit()


class CarefulStore(TypedStore):
    """A store of any other kind."""

    def __init__(
        self, spec: TopologyStore, inner: BytesStore, context: RecordContext, guarded: Guarded,
        *, undo: Undo, check: Check,
    ) -> None:  # fmt: skip
        super().__init__(spec, inner, context, guarded, partial(CarefulTransaction, undo=undo))
        self._check = check
        if isinstance(self.store, TimedStore):
            undo.keep(self.store.stream_time, "observed_ms", "sequence", "dropped_total")
        if isinstance(self.store, VersionedKeyValueStore):
            undo.keep(self.store, "_puts")

    def settle(self) -> None:
        """Checks what was written since the last call."""
        self._top.settle()
        transaction = self._transaction
        assert isinstance(transaction, CarefulTransaction)  # noqa: S101 (it was made so)
        for key in list(transaction.unchecked):
            self._check(self.change_of(key))
        self.forget()

    def forget(self) -> None:
        """Nothing that was written since then is there any more."""
        assert isinstance(self._transaction, CarefulTransaction)  # noqa: S101 (it was made so)
        self._transaction.unchecked.clear()
        self._top.forget()
