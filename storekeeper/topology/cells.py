"""Rows of a task's store that stay decoded while a batch runs. Each is read and written at most once.

    store below ──read once──> cell: value, timestamp, changed ──written once, when the batch ends──> transaction

An operator changes its cells. They are written before the store itself is read, so every reader sees what they hold.
Values must not be mutated: a function returns a new one and leaves its argument unchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from storekeeper.serdes.keys.sessions import decode_session_row_key, session_bounds, session_row_key
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS, window_row_key, window_start_ms
from storekeeper.serdes.round_trip import Trusted
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import bare_deserialize, bare_serialize
from storekeeper.serdes.timestamped import STAMP_BYTES, ValueAndTimestamp, stamp_of, stamped
from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, BytesStore, Entry
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.session import SessionStore
from storekeeper.stores.stream_time import StoreStreamTime, TimedStore
from storekeeper.stores.window import WindowStore
from storekeeper.stores.wrapped import WrappedStore

C = TypeVar("C")


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
    """The top of a store whose rows an operator may keep in cells: they are written before somebody reads. `settle`
    writes them to the store below; `forget` is called when somebody else has written.
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


class Cells(ABC, Generic[C]):
    """The rows of a store whose rows live by time, for the operator that alone writes them."""

    def __init__(self, store: TimedStore[Any, Any], keys: Serde[Any], values: Serde[Any], top: CellsAbove) -> None:
        transaction: Any = top.inner
        self._transaction = transaction
        self._context: RecordContext = transaction.context
        # What an operator writes has been checked.
        self._encode_key, self._encode = bare_serialize(keys), Trusted(values).serialize
        self._decode = bare_deserialize(values)
        self._time = store.stream_time
        self._stored_until_ms = self._time.observed_ms
        """The store below has no row of a later time: its stream time is that of its latest row."""
        self._known: dict[Any, Any] = {}
        """What has been read or written, by key or start."""
        self._changed: dict[C, None] = {}
        top.settle, top.forget = self.settle, self.forget

    @property
    def stream_time(self) -> StoreStreamTime:
        """That of the store."""
        return self._time

    def settle(self) -> None:
        """Writes all changes to the transaction."""
        changed: Iterable[Any] = self._changed
        if not self._changed:
            return
        stamps = [(cell.timestamp_ms, cell.trace) for cell in changed]
        self._transaction.write_stamped(self._rows(), stamps, self._time.encoded())
        self._changed.clear()

    def forget(self) -> None:
        """Drops all cells. What has not been written is lost."""
        self._stored_until_ms = self._time.observed_ms
        self._known.clear()
        self._changed.clear()

    @abstractmethod
    def _rows(self) -> list[Entry]:
        """The changed rows, in the order of `_changed`. Their cells count as written."""


class WindowCells(Cells[Cell]):
    """The rows of a window store."""

    def __init__(self, store: WindowStore[Any, ValueAndTimestamp[Any]], *more: Any) -> None:
        super().__init__(store, *more)
        self.fetch_all = store.fetch_all
        self._known: dict[int, dict[bytes, Cell]] = {}

    def cell(self, key: Any, start_ms: int) -> Cell:
        """The cell of a window. Only `write` may change it."""
        here = self._known.get(start_ms)
        if here is None:
            here = self._known[start_ms] = {}
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
                self._changed[cell] = None

    def fetch_one(self, key: Any, start_ms: int) -> ValueAndTimestamp[Any] | None:
        """The window's row, or None."""
        if start_ms < self._time.oldest_live_ms:
            return None
        cell = self.cell(key, start_ms)
        return None if cell.value is None else ValueAndTimestamp(cell.value, cell.timestamp_ms)

    def _rows(self) -> list[Entry]:
        encode = self._encode
        rows = [
            (cell.key, None if cell.value is None else stamped(encode(cell.value), cell.timestamp_ms))
            for cell in self._changed
        ]
        for cell in self._changed:
            cell.changed = False
        return rows

    def _load(self, here: dict[bytes, Cell], data: bytes, start_ms: int) -> Cell:
        cell = Cell(window_row_key(data, start_ms))
        if start_ms < self._time.oldest_live_ms:
            return cell  # the store shows no such row, and takes none
        here[data] = cell
        # Most windows of a batch are new.
        stored = self._transaction.get(cell.key) if start_ms <= self._stored_until_ms else None
        if stored is not None:
            cell.value, cell.timestamp_ms = self._decode(stored[STAMP_BYTES:]), stamp_of(stored)
        return cell


class SessionCell(msgspec.Struct, gc=False, eq=False):
    """One session of a key; attributes as those of `Cell`. `stored`: the store below has it, so that a deletion must be
    written.
    """

    key: bytes
    start_ms: int
    end_ms: int
    stored: bool
    value: Any = None
    timestamp_ms: int = -1
    trace: bytes | None = None


class _Sessions(msgspec.Struct, eq=False):
    """The sessions of a key that end at `since_ms` or later, by end, then start."""

    since_ms: int
    cells: list[SessionCell]


class SessionCells(Cells[SessionCell]):
    """The rows of a session store."""

    def __init__(self, store: SessionStore[Any, Any], *more: Any) -> None:
        super().__init__(store, *more)
        self.find_sessions_ended = store.find_sessions_ended
        self._known: dict[bytes, _Sessions] = {}

    def near(self, key: Any, earliest_end_ms: int, latest_start_ms: int) -> list[SessionCell]:
        """A key's sessions with `end >= earliest_end_ms` and `start <= latest_start_ms`; by end, then start."""
        earliest_ms = max(earliest_end_ms, self._time.oldest_live_ms)
        nearby = []
        for cell in reversed(self._sessions(self._encode_key(key), earliest_ms).cells):
            if cell.end_ms < earliest_ms:
                break
            if cell.start_ms <= latest_start_ms:
                nearby.append(cell)
        return nearby[::-1]

    def put(self, key: Any, start_ms: int, end_ms: int, value: Any) -> None:
        """Adds a session that is not there. The value must be as it will be read."""
        data = self._encode_key(key)
        cell = SessionCell(data, start_ms, end_ms, stored=False)
        if not self.write(cell, value) or value is None:
            return
        cells = self._sessions(data, end_ms).cells
        place = len(cells)
        while place and (cells[place - 1].end_ms, cells[place - 1].start_ms) > (end_ms, start_ms):
            place -= 1
        cells.insert(place, cell)

    def write(self, cell: SessionCell, value: Any) -> bool:
        """Sets a session's value, which must be as it will be read; returns whether it was in time."""
        self._time.observe(cell.end_ms)
        if not self._time.admits(cell.end_ms):
            return False
        cell.value, cell.timestamp_ms, cell.trace = value, self._context.timestamp_ms, self._context.trace
        if value is not None or cell.stored:
            self._changed[cell] = None
        else:
            self._changed.pop(cell, None)  # it came and went in this batch
        return True

    def delete(self, cell: SessionCell) -> None:
        """Deletes a session."""
        if not self.write(cell, None):
            return
        # All cells may have been dropped since this one was given out.
        cells = self._sessions(cell.key, cell.end_ms).cells
        for place in reversed(range(len(cells))):
            if (cells[place].start_ms, cells[place].end_ms) == (cell.start_ms, cell.end_ms):
                del cells[place]
                break

    def fetch_session(self, key: Any, start_ms: int, end_ms: int) -> Any:
        """The value of exactly that session, or None."""
        nearby = self.near(key, end_ms, start_ms)
        return next((cell.value for cell in nearby if (cell.start_ms, cell.end_ms) == (start_ms, end_ms)), None)

    def _rows(self) -> list[Entry]:
        encode = self._encode
        rows = [
            (session_row_key(cell.key, cell.start_ms, cell.end_ms), None if cell.value is None else encode(cell.value))
            for cell in self._changed
        ]
        for cell in self._changed:
            cell.stored = True
        return rows

    def _sessions(self, key: bytes, since_ms: int) -> _Sessions:
        """The sessions of a key, at least those that end at `since_ms` or later."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Sessions(MAX_TIMESTAMP_MS, [])
        if since_ms < known.since_ms:
            if since_ms <= self._stored_until_ms:
                known.cells[:0] = self._read(key, since_ms, known.since_ms)
            known.since_ms = since_ms
        return known

    def _read(self, key: bytes, since_ms: int, before_ms: int) -> list[SessionCell]:
        start, stop = session_bounds(key, since_ms)[0], session_bounds(key, before_ms)[0]
        cells = []
        with self._transaction.scan(start, stop) as rows:
            for row_key, data in rows:
                _, start_ms, end_ms = decode_session_row_key(row_key)
                cells.append(SessionCell(key, start_ms, end_ms, stored=True, value=self._decode(data)))
        return cells


def _nothing() -> None:
    return None
