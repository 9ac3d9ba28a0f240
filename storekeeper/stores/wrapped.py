"""The base of wrappers: every call goes to the store below unless the wrapper overrides it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, BytesStore, Entry
from storekeeper.stores.iterators import OpenIterators

_FORWARDED = (
    "get",
    "get_many",
    "write",
    "scan",
    "delete_range",
    "metadata",
    "approximate_num_entries",
    "flush",
    "close",
)


class WrappedStore:
    """A `BytesStore` around another. Subclasses override what they change.

    What a subclass doesn't override is bound to the inner store's own method at construction, so that a layer costs
    nothing on calls that it doesn't touch.
    """

    def __init__(self, inner: BytesStore) -> None:
        self._inner = inner
        for method in _FORWARDED:
            if getattr(type(self), method) is getattr(WrappedStore, method):
                setattr(self, method, getattr(inner, method))

    @property
    def inner(self) -> BytesStore:
        """The store below."""
        return self._inner

    @property
    def name(self) -> str:
        """The store's name."""
        return self._inner.name

    @property
    def persistent(self) -> bool:
        """Whether rows outlive the process."""
        return self._inner.persistent

    @property
    def is_open(self) -> bool:
        """False after `close`."""
        return self._inner.is_open

    @property
    def open_iterators(self) -> OpenIterators:
        """The iterators that are open on this store."""
        return self._inner.open_iterators

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`, or None."""
        return self._inner.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at `keys`, in their order."""
        return self._inner.get_many(keys)

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes rows and metadata in one step."""
        self._inner.write(entries, metadata)

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        """Rows with `start <= key < stop`."""
        return self._inner.scan(start, stop, reverse=reverse)

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Deletes every row with `start <= key < stop`."""
        self._inner.delete_range(start, stop)

    def metadata(self, key: bytes) -> bytes | None:
        """The metadata entry at `key`, or None."""
        return self._inner.metadata(key)

    def approximate_num_entries(self) -> int:
        """About how many rows there are."""
        return self._inner.approximate_num_entries()

    def flush(self) -> None:
        """Makes all that was written safe."""
        self._inner.flush()

    def close(self) -> None:
        """Closes the store below."""
        self._inner.close()
