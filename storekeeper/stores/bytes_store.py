"""The lowest layer: an ordered map of bytes that every backend offers and every store kind builds on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn, Protocol

from storekeeper.errors import StoreClosedError
from storekeeper.names import checked_name
from storekeeper.stores.iterators import ClosingIterator, OpenIterators, Row

Entry = tuple[bytes, bytes | None]
BytesIterator = ClosingIterator[Row]
"""Rows of one scan, in order."""
NO_METADATA: Mapping[bytes, bytes | None] = MappingProxyType({})


class BytesStore(Protocol):
    """An ordered map from bytes to bytes, compared as unsigned bytes.

    Beside its rows a store keeps metadata: a few small entries (positions, stream time, format version) in a key
    space of their own, written atomically with rows and never seen by scans.

    Safe for one writer and many readers. Every call raises `StoreClosedError` after `close`.
    """

    @property
    def name(self) -> str:
        """The store's name."""
        ...

    @property
    def persistent(self) -> bool:
        """Whether rows outlive the process."""
        ...

    @property
    def is_open(self) -> bool:
        """False after `close`."""
        ...

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`, or None if there is none."""
        ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at `keys`, in their order, None where there is none. One call to the backend."""
        ...

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes rows and metadata in one atomic step: after a crash all or nothing of it is there.

        A None value deletes. Of several entries for one key the last wins.

        Raises:
            DiskFullError: nothing was written; the store stays readable and takes writes again once there is space.
        """
        ...

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        """Rows with `start <= key < stop` in byte order, or backwards; None leaves that end open.

        Rows added after the call don't show. On RocksDB the rows are exactly those of the moment of the call; in memory
        and on Redis a row that is deleted or overwritten during the scan is skipped or shows its newer value.
        """
        ...

    def metadata(self, key: bytes) -> bytes | None:
        """The metadata entry at `key`, or None."""
        ...

    def approximate_num_entries(self) -> int:
        """About how many rows there are: exact in memory, an estimate on RocksDB."""
        ...

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Deletes every row with `start <= key < stop`, cheaply: it is how whole segments expire."""
        ...

    @property
    def open_iterators(self) -> OpenIterators:
        """The iterators that are open on this store, counted."""
        ...

    def flush(self) -> None:
        """Makes all that was written survive a crash of the machine, as far as the backend can."""
        ...

    def close(self) -> None:
        """Flushes and frees everything; open iterators become unusable. Safe to call twice."""
        ...


def is_empty(store: BytesStore) -> bool:
    """Whether a store has no rows at all."""
    with store.scan(None, None) as rows:
        return next(rows, None) is None


class Backend:
    """The base of every `BytesStore` that holds rows itself.

    Attributes:
        persistent: whether rows outlive the process.
    """

    persistent = False

    def __init__(self, name: str) -> None:
        """Raises InvalidNameError if the name can't name a store."""
        self._name = checked_name(name)
        self._iterators = OpenIterators()
        self._open = True

    @property
    def name(self) -> str:
        """The store's name."""
        return self._name

    @property
    def is_open(self) -> bool:
        """False after `close`."""
        return self._open

    @property
    def open_iterators(self) -> OpenIterators:
        """The iterators that are open on this store."""
        return self._iterators

    def _refuse(self) -> NoReturn:
        raise StoreClosedError(f"store {self._name} is closed; open it again first")
