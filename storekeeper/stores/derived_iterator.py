"""An iterator made from the scans of a store: merged, filtered or renamed rows that close what they were made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from storekeeper.errors import IteratorClosedError
from storekeeper.stores.bytes_store import BytesIterator, Entry
from storekeeper.stores.iterators import ClosingIterator, OpenIterators, Row


class DerivedIterator(ClosingIterator[Row]):
    """Rows computed from other scans. It is not registered itself: the scans are."""

    __slots__ = ("_closed", "_registry", "_rows", "_scans")

    def __init__(self, rows: Iterator[Row], scans: Sequence[ClosingIterator[Any]], registry: OpenIterators) -> None:
        self._rows = rows
        self._scans = scans
        self._registry = registry
        self._closed = False

    @property
    def closed(self) -> bool:
        """True after its own or its store's close, or that of a scan below."""
        return self._closed or self._registry.shut or any(scan.closed for scan in self._scans)

    def __next__(self) -> Row:
        if self._closed or self._registry.shut:
            raise IteratorClosedError("this iterator was closed, or its store was; open a new one")
        try:
            return next(self._rows)
        except StopIteration:
            # After an error in a scan the rows just end, which would look like the end of the store.
            if self.closed:
                raise IteratorClosedError("this iterator was closed, or its store was; open a new one") from None
            raise

    def close(self) -> None:
        """Closes the scans below. Safe to call twice."""
        self._closed = True
        for scan in self._scans:
            scan.close()


def merged(changes: Iterable[Entry], rows: Iterator[Row], *, reverse: bool) -> Iterator[Row]:
    """Rows with changes applied: both in the same order; a change wins over a row, a None value hides it."""
    pending = iter(changes)
    change = next(pending, None)
    row = next(rows, None)
    while change is not None or row is not None:
        if change is None or (row is not None and row[0] != change[0] and (row[0] < change[0]) != reverse):
            assert row is not None  # noqa: S101 (one of the two is there)
            yield row
            row = next(rows, None)
            continue
        key, value = change
        if row is not None and row[0] == key:
            row = next(rows, None)
        if value is not None:
            yield key, value
        change = next(pending, None)


def overlaid(changes: Sequence[Entry], rows: BytesIterator, registry: OpenIterators, *, reverse: bool) -> BytesIterator:
    """A scan of the store below with changes merged in."""
    return DerivedIterator(merged(changes, rows, reverse=reverse), (rows,), registry)
