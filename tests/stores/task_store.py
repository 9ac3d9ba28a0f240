"""A store as a task has it: over a backend, behind the transaction of a batch, with its changelog in a list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.serdes.serde import Serde, Utf8Serde
from storekeeper.stores.bytes_store import BytesStore, Entry
from storekeeper.stores.profile import Profile
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.rocksdb_options import RocksDBOptions
from storekeeper.stores.rocksdb_sealed import open_sealed
from storekeeper.stores.stream_time import TimedStore
from storekeeper.stores.suppliers import StoreSupplier
from storekeeper.topology.records import StoreChange
from storekeeper.topology.store import Store, StoreKind
from storekeeper.topology.task_stores import TypedStore, memory_store, opened, restore
from storekeeper.topology.topology_store import TopologyStore

POSITION = b"test-position"


@dataclass(frozen=True)
class SmallRocksDB:
    """Supplies stores of RocksDB that take little memory, and are opened fast."""

    directory: Path

    def open(self, name: str) -> BytesStore:
        return open_sealed(self.directory / name, name, RocksDBOptions(profile=Profile.MEMORY_CONSTRAINED))


class TaskStore:
    """The store of a task whose batches end when the test says so.

    Attributes:
        spec: what it is.
        store: what a processor or an operator gets.
        backend: its rows below the transaction.
        log: its changelog.
        context: the record under way.
    """

    def __init__(
        self,
        spec: TopologyStore,
        supplier: StoreSupplier | None = None,
        log: list[StoreChange] | None = None,
        context: RecordContext | None = None,
    ) -> None:
        self.spec = spec
        self.log: list[StoreChange] = [] if log is None else log
        self.context = context or RecordContext()
        self._supplier = supplier
        self.backend = self._backend()
        self._catch_up()

    @property
    def below(self) -> BytesStore:
        """The layer below the transaction."""
        below: BytesStore = self.store.layers.restore_target if isinstance(self._opened, TypedStore) else self.backend
        return below

    def cells(self) -> Any:
        """The rows as an aggregation of windows has them."""
        assert isinstance(self._opened, TypedStore)
        return self._opened.cells()

    def end_batch(self) -> list[tuple[StoreChange, bytes | None]]:
        """Logs the batch's changes, then applies them: as a task does when its transaction is committed.

        Returns:
            The changes, each with what the store below had.
        """
        self._opened.evict()
        changes = list(self._opened.changes())
        changed = [(change, self.below.get(change.key)) for change in changes]
        self.log += changes
        self._opened.apply({POSITION: b"%d" % len(self.log)})
        return changed

    def give_up(self) -> None:
        """Discards the task; what its batch has written is lost."""
        self._open()

    def reopen(self) -> None:
        """Ends the process: what was not applied, and what the backend doesn't keep, comes from the changelog."""
        self._opened.close()
        self.backend = self._backend()
        self._catch_up()

    def crash(self) -> None:
        """As `reopen`, without an orderly close."""
        self.backend.close()
        self.backend = self._backend()
        self._catch_up()

    def restore(self, entries: Iterable[Entry]) -> None:
        """Reads records of a changelog into the store."""
        restore(self.spec, self.backend, [StoreChange(self.spec.name, key, value, -1) for key, value in entries])
        self._open()

    def close(self) -> None:
        """Closes the store."""
        self._opened.close()

    def _backend(self) -> BytesStore:
        return memory_store(self.spec) if self._supplier is None else self._supplier.open(self.spec.name)

    def _catch_up(self) -> None:
        position = int(self.backend.metadata(POSITION) or 0)
        if self.log[position:]:
            restore(self.spec, self.backend, self.log[position:], {POSITION: b"%d" % len(self.log)})
        self._open()

    def _open(self) -> None:
        self._opened = opened(self.spec, _Opened(self.backend), self.context, _unguarded)
        self.store: Any = getattr(self._opened, "store", self._opened)
        if isinstance(self.store, TimedStore):
            # Cases go beyond the year 9999, where the records of an app end.
            self.store.stream_time.latest_ms = MAX_TIMESTAMP_MS


@dataclass(frozen=True)
class _Opened:
    """Supplies one backend."""

    backend: BytesStore

    def open(self, name: str) -> BytesStore:
        return self.backend


def _unguarded(serde: Serde[Any], place: str | None = None) -> Serde[Any]:
    del place
    return serde


def store_spec(
    kind: StoreKind = StoreKind.KEY_VALUE,
    *,
    name: str = "rows",
    keys: Serde[Any] | None = None,
    values: Serde[Any] | None = None,
    retention_ms: int = 0,
    window_size_ms: int = 1,
    retain_duplicates: bool = False,
    timestamped: bool = False,
    options: Store[Any] | None = None,
) -> TopologyStore:
    """What a store is; text by text if nothing is said."""
    return TopologyStore(
        name, kind, keys or Utf8Serde(), values or Utf8Serde(), options or Store(name), retention_ms,
        window_size_ms, retain_duplicates, timestamped,
    )  # fmt: skip
