"""Transactions: they read their own writes, nobody else does, and the position goes along with the commit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import DiskFullError, StoreClosedError
from storekeeper.serdes.serde import Utf8Serde
from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.bytes_store import Entry
from storekeeper.stores.changelog_writer import InMemoryChangelog
from storekeeper.stores.key_value import KeyValueStore
from storekeeper.stores.memory import MemoryStore
from storekeeper.stores.record_context import POSITION_KEY, decode_position
from storekeeper.stores.transaction import TransactionStore
from tests.stores.recording_store import RecordingStore

UTF8 = Utf8Serde()
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


@pytest.fixture
def store() -> KeyValueStore[str, str]:
    return StoreBuilder("rows").with_caching().key_value(UTF8, UTF8)


def test_the_position_follows_with_the_commit(store: KeyValueStore[str, str]) -> None:
    store.context.move_to("pos", 0, 7)
    with store.transaction() as rows:
        rows.put("a", "1")
        store.context.move_to("pos", 1, 3)
        rows.put("b", "1")
        assert (store.position, rows.position) == ({}, {"pos": {"0": 7, "1": 3}})
    assert store.position == {"pos": {"0": 7, "1": 3}}
    store.context.move_to("pos", 2, 9)
    store.put("c", "1")
    assert store.position == {"pos": {"0": 7, "1": 3, "2": 9}}


def test_a_commit_takes_back_no_position_that_was_written_meanwhile(store: KeyValueStore[str, str]) -> None:
    store.context.move_to("pos", 0, 7)
    rows = store.transaction()
    rows.put("a", "1")
    for partition, offset in ((0, 8), (1, 3)):
        store.context.move_to("pos", partition, offset)
        store.put("b", "1")
    rows.commit()
    assert store.position == {"pos": {"0": 8, "1": 3}}
    store.flush()
    assert decode_position(store.layers.backend.metadata(POSITION_KEY)) == store.position


def test_an_aborted_or_empty_transaction_moves_no_position(store: KeyValueStore[str, str]) -> None:
    store.context.move_to("pos", 0, 7)
    aborted = store.transaction()
    aborted.put("a", "1")
    aborted.abort()
    with store.transaction() as rows:
        assert rows.get("a") is None
    assert (store.position, aborted.position) == ({}, {})
    aborted.put("a", "1")
    aborted.commit()
    assert store.position == {"pos": {"0": 7}}


def test_what_is_not_committed_is_not_logged() -> None:
    log = InMemoryChangelog()
    store = StoreBuilder("rows").with_logging(log).key_value(UTF8, UTF8)
    rows = store.transaction()
    rows.put_all([("a", "1"), ("a", "2"), ("b", None)])
    assert (log.records, rows.put_if_absent("a", "3"), rows.delete("c")) == ([], "2", None)
    rows.commit()
    assert [(record.key, record.value) for record in log.records] == [(b"a", b"2"), (b"b", None), (b"c", None)]
