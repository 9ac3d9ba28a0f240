"""Scans over a store with changes on top that it doesn't have yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from state.stores.bytes_store import BytesIterator, Entry
from state.stores.derived_iterator import DerivedIterator
from state.stores.iterators import OpenIterators, Row


def merged(changes: Sequence[Entry], rows: Iterator[Row], *, reverse: bool) -> Iterator[Row]:
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
