"""The expiry index: it holds exactly the rows that expire, whatever is written, and finds them by their time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.stores.bytes_store import Entry
from storekeeper.stores.expiry_index import (
    NEVER_MS,
    ExpiryIndexStore,
    expires_at_ms,
    put_at_ms,
    stamped,
    unstamped,
)
from storekeeper.stores.memory import MemoryStore

KEYS = st.sampled_from([b"", b"\x00", b"a", b"aa", b"\xff"])
ENDS = st.sampled_from([0, 1, 255, 256, 1000, NEVER_MS - 1, NEVER_MS])
WRITES = st.lists(st.lists(st.tuples(KEYS, st.none() | ENDS), max_size=4), max_size=6)


@pytest.fixture
def store() -> ExpiryIndexStore:
    return ExpiryIndexStore(MemoryStore("rows"))


def test_golden_bytes() -> None:
    assert stamped(b"v", 258, 3).hex() == "0000000000000102" + "0000000000000003" + "76"


@given(st.binary(), st.integers(0, NEVER_MS), st.integers(0, NEVER_MS))
def test_a_stamp_comes_off(value: bytes, end_ms: int, begin_ms: int) -> None:
    data = stamped(value, end_ms, begin_ms)
    assert (unstamped(data), expires_at_ms(data), put_at_ms(data)) == (value, end_ms, begin_ms)


@given(WRITES, ENDS, st.integers(0, 10))
def test_the_index_is_that_of_the_rows(batches: list[list[tuple[bytes, int | None]]], now_ms: int, limit: int) -> None:
    inner = MemoryStore("rows")
    store = ExpiryIndexStore(inner)
    model: dict[bytes, int] = {}
    for batch in batches:
        store.write([(key, None if end_ms is None else stamped(b"v", end_ms, 0)) for key, end_ms in batch])
        for key, end_ms in batch:
            model.pop(key, None)
            if end_ms is not None:
                model[key] = end_ms
    assert [key for key, _ in store.scan(None, None)] == sorted(model)
    expiring = {key: end_ms for key, end_ms in model.items() if end_ms != NEVER_MS}
    assert store.index_size() == len(expiring) == inner.approximate_num_entries() - len(model)
    expired = sorted((end_ms, key) for key, end_ms in expiring.items() if end_ms <= now_ms)
    # At the end of time itself nothing is looked for: a row that never expires has that time.
    assert store.expired_keys(now_ms, limit) == ([] if now_ms == NEVER_MS else [key for _, key in expired[:limit]])


def test_a_row_and_its_index_row_are_written_in_one_step() -> None:
    class Recording(MemoryStore):
        def __init__(self) -> None:
            super().__init__("recording")
            self.writes: list[list[Entry]] = []

        def write(self, entries, metadata=()) -> None:  # type: ignore[no-untyped-def]
            self.writes.append(list(entries))
            super().write(self.writes[-1], dict(metadata))

    inner = Recording()
    store = ExpiryIndexStore(inner)
    early, late = stamped(b"1", 5, 0), stamped(b"2", 6, 0)
    store.write([(b"a", early)])
    store.write([(b"a", late)], {b"m": b"x"})
    store.write([(b"a", None)])
    index_early, index_late = b"x" + early[:8] + b"a", b"x" + late[:8] + b"a"
    assert inner.writes == [
        [(b"da", early), (index_early, b"")],
        [(index_early, None), (b"da", late), (index_late, b"")],
        [(index_late, None), (b"da", None)],
    ]
    assert store.metadata(b"m") == b"x"


def test_a_row_expires_at_its_time_and_not_before(store: ExpiryIndexStore) -> None:
    store.write([(b"a", stamped(b"1", 100, 0))])
    assert [store.expired_keys(now_ms, 10) for now_ms in (-1, 99, 100, NEVER_MS)] == [[], [], [b"a"], []]


def test_a_row_that_is_taken_out_stays_and_is_in_the_index_again_once_it_is_written(store: ExpiryIndexStore) -> None:
    store.write([(key, stamped(b"1", 100, 0)) for key in (b"a", b"b")])
    store.take_out([b"a", b"gone"])
    assert ([key for key, _ in store.scan(None, None)], store.expired_keys(100, 10)) == ([b"a", b"b"], [b"b"])
    store.write([(b"a", stamped(b"1", 100, 0))])
    assert store.expired_keys(100, 10) == [b"a", b"b"]


def test_a_deleted_range_takes_its_index_rows_along(store: ExpiryIndexStore) -> None:
    store.write([(key, stamped(b"1", 100, 0)) for key in (b"a", b"b", b"c")])
    store.delete_range(b"a", b"c")
    assert ([key for key, _ in store.scan(None, None)], store.expired_keys(100, 10)) == ([b"c"], [b"c"])


def test_scans_never_show_index_rows(store: ExpiryIndexStore) -> None:
    store.write([(key, stamped(key, 100, 0)) for key in (b"a", b"b", b"\xff\xff")])
    assert [key for key, _ in store.scan(b"b", None)] == [b"b", b"\xff\xff"]
    assert [key for key, _ in store.scan(None, b"b", reverse=True)] == [b"a"]
    assert [unstamped(data or b"") for data in store.get_many([b"b", b"a"])] == [b"b", b"a"]
    assert store.get_many([b"x"]) == [None]
    assert store.approximate_num_entries() == 3
