"""The LRU store: what goes, in which order, what its changelog says of it, and readers beside the writer."""

from __future__ import annotations

import threading
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import ConfigurationError, StoreClosedError
from storekeeper.serdes.serde import Utf8Serde
from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.bytes_store import Entry
from storekeeper.stores.changelog_writer import InMemoryChangelog
from storekeeper.stores.lru import LruStore
from storekeeper.stores.suppliers import LruSupplier

UTF8 = Utf8Serde()
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
OPERATIONS = st.lists(
    st.tuples(st.just("get"), KEYS) | st.tuples(st.sampled_from(["put", "delete"]), KEYS), max_size=30
)
BATCHES = st.lists(st.lists(st.tuples(KEYS, st.none() | st.sampled_from([b"1", b"2"])), max_size=6), max_size=6)


def replayed(log: InMemoryChangelog) -> dict[bytes, bytes]:
    """What a restore makes of the changelog: the last record of each key, in a store without a bound."""
    last = {record.key: record.value for record in log.records}
    return {key: value for key, value in last.items() if value is not None}


@given(OPERATIONS, st.integers(1, 4))
def test_the_row_that_was_not_used_for_longest_goes(operations: list[tuple[str, bytes]], max_entries: int) -> None:
    store, model, evictions = LruStore("lru", max_entries), OrderedDict[bytes, bytes](), 0
    for operation, key in operations:
        if operation == "get":
            assert store.get(key) == model.get(key)
            if key in model:
                model.move_to_end(key)
            continue
        store.write([(key, b"1" if operation == "put" else None)])
        model.pop(key, None)
        if operation == "put":
            model[key] = b"1"
        if len(model) > max_entries:
            model.popitem(last=False)
            evictions += 1
        assert (store.evictions, store.approximate_num_entries()) == (evictions, len(model))
    assert list(store.scan(None, None)) == sorted(model.items())


def test_scans_refresh_nothing_but_bulk_reads_do() -> None:
    store = LruStore("lru", 2)
    store.write([(b"a", b"1"), (b"b", b"1")])
    list(store.scan(None, None, reverse=True))
    store.write([(b"c", b"1")])
    assert [key for key, _ in store.scan(None, None)] == [b"b", b"c"]
    assert store.get_many([b"b", b"x"]) == [b"1", None]
    store.write([(b"d", b"1")])
    assert [key for key, _ in store.scan(None, None)] == [b"b", b"d"]


def test_a_batch_with_more_rows_than_room_leaves_the_last() -> None:
    store = LruStore("lru", 2)
    gone: list[bytes] = []
    store.on_evict(gone.append)
    store.write([(b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"a", b"2"), (b"d", None)])
    assert (list(store.scan(None, None)), gone) == ([(b"a", b"2"), (b"c", b"1")], [b"b"])


def test_a_deleted_range_evicts_nothing() -> None:
    store = LruStore("lru", 3)
    store.write([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    store.delete_range(b"a", b"c")
    assert (list(store.scan(None, None)), store.evictions) == ([(b"c", b"1")], 0)


@pytest.mark.parametrize("max_entries", [0, -1])
def test_there_must_be_room_for_a_row(max_entries: int) -> None:
    with pytest.raises(ConfigurationError):
        LruStore("lru", max_entries)


def test_everything_raises_after_close() -> None:
    store = LruStore("lru", 2)
    store.write([(b"a", b"1")])
    store.close()
    store.close()
    calls = (
        lambda: store.get(b"a"),
        lambda: store.get_many([]),
        lambda: store.write([]),
        lambda: store.scan(None, None),
    )
    for call in calls:
        with pytest.raises(StoreClosedError):
            call()


@given(BATCHES, st.integers(1, 3))
def test_a_changelog_holds_exactly_the_rows_of_the_store(batches: list[list[Entry]], max_entries: int) -> None:
    log = InMemoryChangelog()
    store = StoreBuilder("lru", LruSupplier(max_entries)).with_logging(log).key_value(UTF8, UTF8)
    for batch in batches:
        store.put_all([(key.decode(), None if value is None else value.decode()) for key, value in batch])
        assert replayed(log) == dict(store.layers.backend.scan(None, None))


@given(BATCHES, st.integers(1, 3), st.integers(1, 3))
def test_what_a_smaller_store_evicts_while_it_is_restored_leaves_the_changelog(
    batches: list[list[Entry]], max_entries: int, step: int
) -> None:
    log = InMemoryChangelog()
    first = StoreBuilder("lru", LruSupplier(5)).with_logging(log).key_value(UTF8, UTF8)
    for batch in batches:
        first.put_all([(key.decode(), None if value is None else value.decode()) for key, value in batch])
    records: list[Entry] = [(record.key, record.value) for record in log.records]
    restored = StoreBuilder("lru", LruSupplier(max_entries)).with_logging(log).key_value(UTF8, UTF8)
    for begin in range(0, len(records), step):
        restored.restore_batch(records[begin : begin + step])
    restored.flush()
    assert replayed(log) == dict(restored.layers.backend.scan(None, None))


def test_evictions_are_logged_with_the_time_and_headers_of_the_record_that_caused_them() -> None:
    log = InMemoryChangelog()
    store = StoreBuilder("lru", LruSupplier(1)).with_logging(log).key_value(UTF8, UTF8)
    store.context.timestamp_ms, store.context.headers = 5, [("source", b"x")]
    store.put("a", "1")
    store.put("b", "1")
    assert tuple(log.records[-1]) == (b"a", None, 5, [("source", b"x")])


def test_kinds_whose_rows_belong_together_are_refused() -> None:
    builder = StoreBuilder("lru", LruSupplier(10))
    for build in (
        lambda: builder.window(UTF8, UTF8, window_size_ms=1, retention_ms=10),
        lambda: builder.session(UTF8, UTF8, retention_ms=10),
        lambda: builder.ttl_key_value(UTF8, UTF8, ttl_ms=10),
    ):
        with pytest.raises(ConfigurationError, match="another supplier"):
            build()


def test_a_row_that_is_evicted_while_a_reader_has_it_is_still_read() -> None:
    store = LruStore("lru", 1)
    store.write([(b"a", b"1")])
    written = threading.Event()

    def evict() -> None:
        store.write([(b"b", b"1")])
        written.set()

    writer = threading.Thread(target=evict)

    class Interrupted(OrderedDict[bytes, None]):
        """Lets the writer in between the look-up and the refresh, unless it has to wait for the reader."""

        def move_to_end(self, key: bytes, last: bool = True) -> None:
            writer.start()
            written.wait(0.1)
            super().move_to_end(key, last)

    store._used = Interrupted(store._used)
    assert store.get(b"a") == b"1"
    writer.join(30)
    assert (written.is_set(), list(store.scan(None, None))) == (True, [(b"b", b"1")])
