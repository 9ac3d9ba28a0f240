"""The contract of `BytesStore`, for backends bare and under every wrapper of a task."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator

import pytest

from storekeeper.errors import IteratorClosedError, StoreClosedError
from storekeeper.stores.bytes_store import BytesStore
from storekeeper.stores.expiry_index import NEVER_MS, ExpiryIndexStore, stamped
from storekeeper.stores.iterators import OpenIterators, RowIterator
from storekeeper.stores.memory import MemoryStore
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.segmented import SegmentedStore
from storekeeper.stores.transaction import TransactionStore
from storekeeper.topology.careful_stores import CarefulTransaction
from storekeeper.topology.task_stores import StampedTransaction
from storekeeper.topology.undo import Undo
from tests.conformance.backend import Backend

Wrap = Callable[[BytesStore], BytesStore]


WRAPPERS: dict[str, Wrap] = {
    "bare": lambda store: store,
    "transaction": TransactionStore,
    "task": lambda store: StampedTransaction(store, RecordContext()),
    "careful_task": lambda store: CarefulTransaction(store, RecordContext(), Undo()),
    "segmented": lambda store: SegmentedStore(store, lambda key: key[-1], 64),
    "expiry_index": ExpiryIndexStore,
    "task_with_segments": lambda store: StampedTransaction(
        SegmentedStore(store, lambda key: key[-1], 64), RecordContext()
    ),
    "task_with_expiry_index": lambda store: StampedTransaction(ExpiryIndexStore(store), RecordContext()),
}


@pytest.fixture(params=WRAPPERS)
def store(request: pytest.FixtureRequest, backend: Backend) -> Iterator[BytesStore]:
    wrapped = WRAPPERS[request.param](backend.open("contract"))
    yield wrapped
    wrapped.close()


def value(text: bytes) -> bytes:
    """A value that the expiry index takes as well: one that never expires."""
    return stamped(text, NEVER_MS, 0)


KEYS = [b"\x00", b"\x00\x00", b"\x00\xff", b"a", b"a\x00", b"aa", b"b", b"\x7f", b"\x80", b"\xff", b"\xff\xff"]
ROWS = [(key, value(bytes([number]))) for number, key in enumerate(sorted(KEYS))]


def test_reads_what_was_written(store: BytesStore) -> None:
    store.write(ROWS)
    assert [store.get(key) for key, _ in ROWS] == [row for _, row in ROWS]
    assert store.get(b"absent") is None
    assert store.get_many([b"absent", b"a", b"absent", b"b"]) == [None, dict(ROWS)[b"a"], None, dict(ROWS)[b"b"]]
    assert store.get_many([]) == []


def test_the_last_of_several_writes_to_a_key_wins(store: BytesStore) -> None:
    store.write([(b"a", value(b"1")), (b"b", value(b"1")), (b"a", value(b"2")), (b"b", None)])
    assert store.get(b"a") == value(b"2")
    assert store.get(b"b") is None


def test_deleting_what_is_not_there_is_no_error(store: BytesStore) -> None:
    store.write([(b"a", None)])
    store.write([(b"a", value(b"1"))])
    store.write([(b"a", None)])
    assert store.get(b"a") is None
    assert list(store.scan(None, None)) == []


STARTS = [None, b"", b"\x00", b"a", b"aa", b"b", b"\xff"]
STOPS = [None, b"\x00", b"a", b"a\x00", b"b", b"\x80", b"\xff\xff", b"\xff\xff\xff"]


def test_scans_are_half_open_and_unsigned(store: BytesStore) -> None:
    store.write(ROWS[::2])
    store.flush()
    store.write(ROWS[1::2])
    for start, stop, reverse in itertools.product(STARTS, STOPS, [False, True]):
        expected = [row for row in ROWS if (start is None or row[0] >= start) and (stop is None or row[0] < stop)]
        with store.scan(start, stop, reverse=reverse) as rows:
            assert list(rows) == (expected[::-1] if reverse else expected), (start, stop, reverse)
    assert len(store.open_iterators) == 0


def test_long_scans_are_complete(store: BytesStore) -> None:
    rows = [(b"%06d" % number, value(b"%d" % number)) for number in range(1203)]
    store.write(rows)
    assert list(store.scan(None, None)) == rows
    assert list(store.scan(None, None, reverse=True)) == rows[::-1]


def test_a_scan_survives_writes(store: BytesStore) -> None:
    store.write(ROWS)
    with store.scan(None, None) as rows:
        first = next(rows)
        store.write([(key, None) for key, _ in ROWS] + [(b"new", value(b"new"))])
        rest = list(rows)
    assert first == ROWS[0]
    assert all(row in ROWS for row in rest)


def test_metadata_has_a_key_space_of_its_own(store: BytesStore) -> None:
    store.write([(b"a", value(b"row"))], {b"a": b"metadata", b"gone": b"1"})
    store.write([], {b"gone": None})
    assert store.metadata(b"a") == b"metadata"
    assert store.metadata(b"gone") is None
    assert [key for key, _ in store.scan(None, None)] == [b"a"]


def test_delete_range(store: BytesStore) -> None:
    store.write(ROWS)
    store.delete_range(b"a", b"b")
    store.delete_range(b"z", b"a")
    assert [key for key, _ in store.scan(None, None)] == [key for key, _ in ROWS if not b"a" <= key < b"b"]


def test_flush_changes_no_answer(store: BytesStore) -> None:
    store.write(ROWS)
    before = list(store.scan(None, None))
    store.flush()
    assert list(store.scan(None, None)) == before
    assert store.approximate_num_entries() >= 0


def test_everything_raises_after_close(store: BytesStore) -> None:
    store.write(ROWS)
    was_open = store.is_open
    opened, unstarted = store.scan(None, None), store.scan(None, None)
    next(opened)
    store.close()
    store.close()
    assert (was_open, store.is_open) == (True, False)
    calls: list[Callable[[], object]] = [
        lambda: store.get(b"a"),
        lambda: store.get_many([b"a"]),
        lambda: store.get_many([]),
        lambda: store.delete_range(b"b", b"a"),
        lambda: store.scan(None, None),
        lambda: store.metadata(b"a"),
        store.approximate_num_entries,
        store.flush,
    ]
    if not isinstance(store, TransactionStore):
        calls.append(lambda: store.write([(b"a", value(b"1"))]))
    for call in calls:
        with pytest.raises(StoreClosedError):
            call()
    for iterator in (opened, unstarted):
        assert iterator.closed
        with pytest.raises(IteratorClosedError):
            next(iterator)


def test_an_iterator_raises_after_its_own_close(store: BytesStore) -> None:
    store.write(ROWS)
    rows = store.scan(None, None)
    next(rows)
    rows.close()
    rows.close()
    with pytest.raises(IteratorClosedError):
        next(rows)
    assert len(store.open_iterators) == 0


def test_persistent_rows_are_there_again(backend: Backend) -> None:
    store = backend.open("again")
    store.write(ROWS, {b"position": b"7"})
    store.close()
    again = backend.open("again")
    try:
        assert list(again.scan(None, None)) == (ROWS if again.persistent else [])
        assert again.metadata(b"position") == (b"7" if again.persistent else None)
    finally:
        again.close()


def test_stores_do_not_see_each_other(backend: Backend) -> None:
    one, two = backend.open("a"), backend.open("a.b")
    one.write(ROWS, {b"m": b"1"})
    assert list(two.scan(None, None)) == []
    assert two.metadata(b"m") is None
    two.delete_range(b"", b"\xff" * 9)
    assert one.get(b"a") is not None
    one.close()
    two.close()


def test_leaked_iterators_are_counted() -> None:
    store = MemoryStore("leaks")
    store.write(ROWS)
    kept = store.scan(None, None)
    dropped = store.scan(None, None)
    assert len(store.open_iterators) == 2
    del dropped
    gc.collect()
    assert (len(store.open_iterators), store.open_iterators.leaked_total) == (1, 1)
    kept.close()
    assert (len(store.open_iterators), store.open_iterators.leaked_total) == (0, 1)


def test_an_exhausted_iterator_is_no_leak() -> None:
    registry = OpenIterators()
    rows = RowIterator(iter([(b"a", b"1")]), registry)
    assert list(rows) == [(b"a", b"1")]
    with pytest.raises(StopIteration):
        next(rows)
    del rows
    gc.collect()
    assert (len(registry), registry.leaked_total) == (0, 0)
