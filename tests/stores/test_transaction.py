"""Transactions: they read their own writes, and nobody else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import DiskFullError, StoreClosedError
from storekeeper.stores.bytes_store import Entry
from storekeeper.stores.memory import MemoryStore
from storekeeper.stores.transaction import TransactionStore
from tests.stores.recording_store import RecordingStore

KEYS = st.sampled_from([b"", b"a", b"b", b"ba", b"\xff"])
ENTRIES = st.lists(st.tuples(KEYS, st.none() | st.sampled_from([b"1", b"2"])), max_size=8)


@pytest.fixture
def below() -> RecordingStore:
    return RecordingStore()


@pytest.fixture
def transaction(below: RecordingStore) -> TransactionStore:
    return TransactionStore(below)


@given(ENTRIES, ENTRIES, KEYS, KEYS)
def test_it_reads_what_a_store_would_after_the_commit(
    before: list[Entry], writes: list[Entry], start: bytes, stop: bytes
) -> None:
    below, after = MemoryStore("below"), MemoryStore("after")
    below.write(before)
    after.write([*before, *writes])
    transaction = TransactionStore(below)
    transaction.write(writes)
    keys = [b"a", b"b", b"ba", b"absent", b"a"]
    assert [transaction.get(key) for key in keys] == transaction.get_many(keys) == after.get_many(keys)
    for reverse in (False, True):
        expected = list(after.scan(start, stop, reverse=reverse))
        assert list(transaction.scan(start, stop, reverse=reverse)) == expected
    assert list(below.scan(None, None)) == sorted(
        (key, value) for key, value in dict(before).items() if value is not None
    )
    transaction.commit()
    assert list(below.scan(None, None)) == list(after.scan(None, None))


def test_a_commit_is_one_write_with_the_last_value_of_each_key(
    below: RecordingStore, transaction: TransactionStore
) -> None:
    transaction.write([(b"a", b"1"), (b"b", b"1")], {b"m": b"1", b"n": None})
    transaction.write([(b"a", None)], {b"m": b"2"})
    assert (transaction.metadata(b"m"), below.metadata(b"m"), below.writes) == (b"2", None, [])
    transaction.commit()
    transaction.commit()
    assert below.writes == [([(b"b", b"1"), (b"a", None)], {b"m": b"2", b"n": None})]


def test_an_abort_forgets_what_came_since_the_last_commit(below: RecordingStore, transaction: TransactionStore) -> None:
    transaction.write([(b"a", b"1")], {b"m": b"1"})
    transaction.commit()
    transaction.write([(b"a", b"2")], {b"m": b"2"})
    transaction.abort()
    transaction.commit()
    assert (transaction.get(b"a"), transaction.metadata(b"m"), len(below.writes)) == (b"1", b"1", 1)


def test_a_full_disk_keeps_the_transaction_for_another_commit(
    below: RecordingStore, transaction: TransactionStore
) -> None:
    transaction.write([(b"a", b"1")])
    below.full = True
    with pytest.raises(DiskFullError):
        transaction.commit()
    below.full = False
    assert (transaction.get(b"a"), below.get(b"a")) == (b"1", None)
    transaction.commit()
    assert below.get(b"a") == b"1"


def test_a_deleted_range_waits_and_takes_uncommitted_rows_along(
    below: RecordingStore, transaction: TransactionStore
) -> None:
    below.write([(b"a", b"1"), (b"c", b"1")])
    transaction.write([(b"b", b"1")])
    transaction.delete_range(b"a", b"c")
    assert [key for key, _ in transaction.scan(None, None)] == [b"c"]
    assert below.get(b"a") == b"1"
    transaction.flush()
    assert [key for key, _ in below.scan(None, None)] == [b"c"]


def test_closing_forgets_what_was_not_committed(below: RecordingStore, transaction: TransactionStore) -> None:
    transaction.write([(b"a", b"1")])
    transaction.close()
    assert (below.is_open, below.writes) == (False, [])
    with pytest.raises(StoreClosedError):
        transaction.get(b"a")
