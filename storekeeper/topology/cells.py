"""Rows of a task's store that stay decoded while a batch runs. Each is read and written at most once.

    store below ──read once──> cell: value, timestamp, changed ──written once, when the batch ends──> transaction

An operator changes its cells. Whoever reads the store itself sees what they hold: it is written before. Values must not
be mutated: a function returns a new one and leaves its argument unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from storekeeper.serdes.keys.windows import window_row_key, window_start_ms
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, BytesStore, Entry
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.stream_time import StoreStreamTime
from storekeeper.stores.window import WindowStore
from storekeeper.stores.windowed import Windowed
from storekeeper.stores.wrapped import WrappedStore


class Cell(msgspec.Struct, gc=False, eq=False):
    """One row.

    Attributes:
        key: its key in the store below.
        value: None if there is no row.
        timestamp_ms: the row's; of a row that is gone, that of the record which deleted it.
        trace: the `traceparent` of the record that changed it last.
        changed: whether it must be written.
    """

    key: bytes
    value: Any = None
    timestamp_ms: int = -1
    trace: bytes | None = None
    changed: bool = False


class CellsAbove(WrappedStore):
    """The top of a store whose rows an operator may keep in cells: they are written before somebody reads.

    Attributes:
        settle: writes them to the store below.
        forget: called when somebody else has written.
    """

    def __init__(self, inner: BytesStore) -> None:
        super().__init__(inner)
        self.settle: Callable[[], None] = _nothing
        self.forget: Callable[[], None] = _nothing

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`."""
        self.settle()
        return self._inner.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at `keys`."""
        self.settle()
        return self._inner.get_many(keys)

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        """Rows with `start <= key < stop`."""
        self.settle()
        return self._inner.scan(start, stop, reverse=reverse)

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes rows."""
        self.settle()
        self._inner.write(entries, metadata)
        self.forget()


class WindowCells:
    """The rows of a window store, for the operator that alone writes them."""

    def __init__(self, store: WindowStore[Any, ValueAndTimestamp[Any]], top: CellsAbove, transaction: Any,
                 context: RecordContext) -> None:  # fmt: skip
        self._store, self._transaction, self._context = store, transaction, context
        self._encode_key, self._encode, self._decode = store.codec
        self._by_start: dict[int, dict[bytes, Cell]] = {}
        self._changed: list[Cell] = []
        self._time = store.stream_time
        self._stored_until_ms = self._time.observed_ms
        top.settle, top.forget = self.settle, self.forget

    @property
    def stream_time(self) -> StoreStreamTime:
        """That of the store."""
        return self._time

    def cell(self, key: Any, start_ms: int) -> Cell:
        """The cell of a window. Only `write` may change it."""
        here = self._by_start.get(start_ms)
        if here is None:
            here = self._by_start[start_ms] = {}
        data = self._encode_key(key)
        return here.get(data) or self._load(here, data, start_ms)

    def write(self, cell: Cell, value: Any, timestamp_ms: int) -> None:
        """Sets or, with None, deletes a row. The value must be as it will be read."""
        cell.value = value
        cell.timestamp_ms = self._context.timestamp_ms if value is None else timestamp_ms
        cell.trace = self._context.trace
        if not cell.changed:
            start_ms = window_start_ms(cell.key)
            self._time.observe(start_ms)
            if self._time.admits(start_ms):
                cell.changed = True
                self._changed.append(cell)

    def fetch_one(self, key: Any, start_ms: int) -> ValueAndTimestamp[Any] | None:
        """The window's row, or None."""
        if start_ms < self._time.oldest_live_ms:
            return None
        cell = self.cell(key, start_ms)
        return None if cell.value is None else ValueAndTimestamp(cell.value, cell.timestamp_ms)

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed[Any], ValueAndTimestamp[Any]]]:
        """The rows of windows that start from `from_ms` to `to_ms`."""
        return self._store.fetch_all(from_ms, to_ms)

    def settle(self) -> None:
        """Writes all changes to the transaction."""
        changed, encode = self._changed, self._encode
        if not changed:
            return
        rows = [
            (cell.key, None if cell.value is None else encode(ValueAndTimestamp(cell.value, cell.timestamp_ms)))
            for cell in changed
        ]
        stamps = [(cell.timestamp_ms, cell.trace) for cell in changed]
        self._transaction.write_stamped(rows, stamps, self._time.encoded())
        for cell in changed:
            cell.changed = False
        changed.clear()

    def forget(self) -> None:
        """Drops all cells. What has not been written is lost."""
        self._by_start.clear()
        self._changed.clear()
        self._stored_until_ms = self._time.observed_ms

    def _load(self, here: dict[bytes, Cell], data: bytes, start_ms: int) -> Cell:
        cell = Cell(window_row_key(data, start_ms))
        if start_ms < self._time.oldest_live_ms:
            return cell  # the store shows no such row, and takes none
        here[data] = cell
        # The store's stream time is that of its latest window: it has no later one. Most windows of a batch are new.
        stored = self._transaction.get(cell.key) if start_ms <= self._stored_until_ms else None
        if stored is not None:
            row = self._decode(stored)
            cell.value, cell.timestamp_ms = row.value, row.timestamp_ms
        return cell


def _nothing() -> None:
    return None
