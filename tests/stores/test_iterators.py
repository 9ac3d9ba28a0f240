"""Iterators: who is counted as open, how they age, and that none of them ever ends early without an error."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator

import pytest

from storekeeper.errors import IteratorClosedError, StoreCorruptedError
from storekeeper.stores.derived_iterator import DerivedIterator
from storekeeper.stores.iterators import OpenIterators, Row, RowIterator, StoreIterator

ROWS: list[Row] = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]


@pytest.fixture
def registry() -> OpenIterators:
    return OpenIterators()


def freeing(freed: list[bool]) -> Iterator[Row]:
    try:
        yield from ROWS
    finally:
        freed.append(True)


def failing() -> Iterator[Row]:
    yield ROWS[0]
    raise StoreCorruptedError("a block is damaged (injected)")


def row_iterator(rows: Iterator[Row], registry: OpenIterators) -> RowIterator:
    return RowIterator(rows, registry)


def derived(rows: Iterator[Row], registry: OpenIterators) -> DerivedIterator:
    scan = RowIterator(rows, registry)
    return DerivedIterator(((key, value) for key, value in scan), (scan,), registry)


def decoded(rows: Iterator[Row], registry: OpenIterators) -> StoreIterator[Row]:
    scan = RowIterator(rows, registry)
    return StoreIterator(((key, value) for key, value in scan), scan)


def decoded_derived(rows: Iterator[Row], registry: OpenIterators) -> StoreIterator[Row]:
    scan = derived(rows, registry)
    return StoreIterator(((key, value) for key, value in scan), scan)


AnyIterator = RowIterator | DerivedIterator | StoreIterator[Row]
Make = Callable[[Iterator[Row], OpenIterators], AnyIterator]
every_kind = pytest.mark.parametrize("make", [row_iterator, derived, decoded, decoded_derived])


@every_kind
def test_leaving_it_frees_what_it_pins(make: Make, registry: OpenIterators) -> None:
    freed: list[bool] = []
    with make(freeing(freed), registry) as rows:
        assert next(rows) == ROWS[0]
        assert (len(registry), freed, rows.closed) == (1, [], False)
    assert (len(registry), freed, rows.closed, registry.leaked_total) == (0, [True], True, 0)


@every_kind
def test_exhausting_it_frees_what_it_pins_and_is_no_close(make: Make, registry: OpenIterators) -> None:
    freed: list[bool] = []
    rows = make(freeing(freed), registry)
    assert list(rows) == ROWS
    assert (len(registry), freed, rows.closed) == (0, [True], False)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(rows)


@every_kind
@pytest.mark.parametrize("read", [0, 1, 3], ids=["unread", "half_read", "fully_read"])
def test_it_raises_at_every_use_after_its_own_close(make: Make, read: int, registry: OpenIterators) -> None:
    rows = make(iter(ROWS), registry)
    for _ in range(read):
        next(rows)
    rows.close()
    rows.close()
    for _ in range(2):
        with pytest.raises(IteratorClosedError):
            next(rows)


@every_kind
def test_it_raises_at_every_use_after_the_store_was_shut(make: Make, registry: OpenIterators) -> None:
    half_read, exhausted = make(iter(ROWS), registry), make(iter(ROWS), registry)
    next(half_read)
    list(exhausted)
    registry.shut_down()
    for rows in (half_read, half_read, exhausted):
        assert rows.closed
        with pytest.raises(IteratorClosedError):
            next(rows)
    assert (len(registry), registry.leaked_total) == (0, 0)


@every_kind
def test_an_error_of_the_backend_never_looks_like_the_end(make: Make, registry: OpenIterators) -> None:
    rows = make(failing(), registry)
    assert next(rows) == ROWS[0]
    with pytest.raises(StoreCorruptedError):
        next(rows)
    for _ in range(2):
        with pytest.raises(IteratorClosedError):
            next(rows)
    assert len(registry) == 0


def test_a_row_that_can_not_be_decoded_never_looks_like_the_end(registry: OpenIterators) -> None:
    scan = RowIterator(iter(ROWS), registry)
    rows = StoreIterator((int(value) // (2 - int(value)) for _, value in scan), scan)
    assert next(rows) == 1
    with pytest.raises(ZeroDivisionError):
        next(rows)
    with pytest.raises(IteratorClosedError):
        rows.has_next()
    assert len(registry) == 0


def test_peeking_moves_nothing(registry: OpenIterators) -> None:
    rows = decoded(iter(ROWS), registry)
    assert [rows.peek(), rows.peek(), next(rows), rows.peek()] == [ROWS[0], ROWS[0], ROWS[0], ROWS[1]]
    assert (rows.has_next(), list(rows), rows.has_next()) == (True, ROWS[1:], False)
    with pytest.raises(StopIteration):
        rows.peek()


def test_a_row_that_was_peeked_at_is_gone_after_the_close(registry: OpenIterators) -> None:
    uses: list[Callable[[StoreIterator[Row]], object]] = [StoreIterator.peek, StoreIterator.has_next, next]
    for use in uses:
        rows = decoded(iter(ROWS), registry)
        rows.peek()
        rows.close()
        with pytest.raises(IteratorClosedError):
            use(rows)


def test_open_ones_are_counted(registry: OpenIterators) -> None:
    assert len(registry) == 0
    older = RowIterator(iter(ROWS), registry)
    newer = RowIterator(iter(ROWS), registry)
    assert len(registry) == 2
    older.close()
    assert len(registry) == 1
    newer.close()
    assert len(registry) == 0


def test_one_that_is_dropped_while_open_is_a_leak_and_frees_what_it_pinned(registry: OpenIterators) -> None:
    freed: list[bool] = []
    rows = RowIterator(freeing(freed), registry)
    next(rows)
    del rows
    gc.collect()
    assert (len(registry), registry.leaked_total, freed) == (0, 1, [True])


def test_closing_all_leaves_the_store_usable(registry: OpenIterators) -> None:
    rows = RowIterator(iter(ROWS), registry)
    registry.close_all()
    with pytest.raises(IteratorClosedError):
        next(rows)
    assert (registry.shut, list(RowIterator(iter(ROWS), registry))) == (False, ROWS)


def test_a_store_closes_while_a_reader_is_inside_a_scan(registry: OpenIterators) -> None:
    inside, go_on, freed = threading.Event(), threading.Event(), threading.Event()
    seen: list[object] = []

    def blocking() -> Iterator[Row]:
        try:
            inside.set()
            go_on.wait(30)
            yield ROWS[0]
            yield ROWS[1]
        finally:
            freed.set()

    def read() -> None:
        rows = RowIterator(blocking(), registry)
        seen.append(next(rows))
        # Nothing of the generator is left behind once the call that was under way has returned.
        seen.append(freed.is_set())
        with pytest.raises(IteratorClosedError):
            next(rows)
        seen.append("closed")

    reader = threading.Thread(target=read)
    reader.start()
    assert inside.wait(30)
    try:
        registry.shut_down()
    finally:
        go_on.set()
        reader.join(30)
    assert (seen, len(registry), registry.leaked_total) == ([ROWS[0], True, "closed"], 0, 0)
