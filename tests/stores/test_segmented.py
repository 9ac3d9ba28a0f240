"""Time segments: where rows go, what expires, and that a reader never misses a live segment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.stores.bytes_store import BytesIterator, Entry
from storekeeper.stores.memory import MemoryStore
from storekeeper.stores.rocksdb_sealed import SealedSupplier
from storekeeper.stores.segmented import INTERVAL_KEY, MIN_INTERVAL_MS, SegmentedStore, segment_interval_ms


def last_byte(key: bytes) -> int:
    return key[-1]


def key(name: bytes, time_ms: int) -> bytes:
    return name + bytes([time_ms])


@pytest.fixture
def inner() -> MemoryStore:
    return MemoryStore("segments")


@pytest.fixture
def store(inner: MemoryStore) -> SegmentedStore:
    return SegmentedStore(inner, last_byte, 10)


def test_a_row_is_in_the_segment_of_its_time(inner: MemoryStore, store: SegmentedStore) -> None:
    store.write([(key(b"a", 9), b"1"), (key(b"a", 10), b"2")], {b"m": b"x"})
    assert list(inner.scan(None, None)) == [
        (bytes(8) + b"a\x09", b"1"),
        (bytes(7) + b"\x01a\x0a", b"2"),
    ]
    assert (store.segments, store.metadata(b"m")) == ((0, 1), b"x")
    assert store.get_many([key(b"a", 10), key(b"b", 10), key(b"a", 9)]) == [b"2", None, b"1"]


@given(st.dictionaries(st.tuples(st.binary(max_size=2), st.integers(0, 60)), st.binary(max_size=1)))
def test_scans_are_in_the_order_of_the_keys_from_above(rows: dict[tuple[bytes, int], bytes]) -> None:
    store = SegmentedStore(MemoryStore("segments"), last_byte, 10)
    entries: list[Entry] = [(key(name, time_ms), value) for (name, time_ms), value in rows.items()]
    store.write(entries)
    assert list(store.scan(None, None)) == sorted(entries)
    assert list(store.scan(None, None, reverse=True)) == sorted(entries)[::-1]
    assert list(store.scan(b"\x01", b"\x80")) == sorted(row for row in entries if b"\x01" <= row[0] < b"\x80")


def test_a_segment_goes_once_all_its_rows_are_older_than_the_horizon(store: SegmentedStore) -> None:
    store.write([(key(b"a", time_ms), b"1") for time_ms in (25, 5, 15)])
    assert (store.expire_before(9), store.segments) == (0, (0, 1, 2))
    assert (store.expire_before(10), store.segments) == (1, (1, 2))
    assert (store.expire_before(29), store.segments) == (1, (2,))
    assert [row_key[-1] for row_key, _ in store.scan(None, None)] == [25]


def test_a_segment_that_went_never_comes_back(inner: MemoryStore, store: SegmentedStore) -> None:
    store.expire_before(20)
    store.expire_before(5)
    store.write([(key(b"a", 19), b"late"), (key(b"a", 20), b"1")])
    assert list(store.scan(None, None)) == [(key(b"a", 20), b"1")]
    assert (store.segments, inner.approximate_num_entries()) == ((2,), 1)


def test_a_scan_without_segments_is_empty_and_closes(store: SegmentedStore) -> None:
    with store.scan(None, None) as rows:
        assert list(rows) == []
    assert len(store.open_iterators) == 0


def test_a_deleted_range_is_deleted_in_every_segment(store: SegmentedStore) -> None:
    store.write([(key(name, time_ms), b"1") for name in (b"a", b"b", b"c") for time_ms in (5, 15)])
    store.delete_range(b"b", b"c")
    assert {row_key[:1] for row_key, _ in store.scan(None, None)} == {b"a", b"c"}


def test_a_store_goes_on_with_its_interval_and_its_segments(tmp_path: Path) -> None:
    supplier = SealedSupplier(tmp_path)
    first = SegmentedStore(supplier.open("segments"), last_byte, 10)
    first.write([(key(b"a", time_ms), b"1") for time_ms in (5, 25, 26)])
    first.close()
    again = SegmentedStore(supplier.open("segments"), last_byte, 7)
    assert again.segments == (0, 2)
    assert again.metadata(INTERVAL_KEY) == (10).to_bytes(8, "big")
    assert again.get(key(b"a", 25)) == b"1"
    assert SegmentedStore(MemoryStore("new"), last_byte, 7).metadata(INTERVAL_KEY) == (7).to_bytes(8, "big")
    again.close()


class Interrupted(MemoryStore):
    """Lets a writer come in between while a reader opens the scan of its first segment."""

    def __init__(self) -> None:
        super().__init__("interrupted")
        self.writer: Callable[[], object] | None = None

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        writer, self.writer = self.writer, None
        if writer is not None:
            writer()
        return super().scan(start, stop, reverse=reverse)


def test_a_reader_misses_no_segment_while_another_expires() -> None:
    inner = Interrupted()
    store = SegmentedStore(inner, last_byte, 10)
    store.write([(key(b"a", time_ms), b"1") for time_ms in (5, 15, 25)])
    inner.writer = lambda: store.expire_before(10)
    assert [row_key[-1] for row_key, _ in store.scan(None, None)] == [15, 25]


def test_a_reader_sees_no_segment_twice_while_another_begins() -> None:
    inner = Interrupted()
    store = SegmentedStore(inner, last_byte, 10)
    store.write([(key(b"a", time_ms), b"1") for time_ms in (15, 25)])
    inner.writer = lambda: store.write([(key(b"a", 5), b"1")])
    assert [row_key[-1] for row_key, _ in store.scan(None, None)] == [15, 25]


@pytest.mark.parametrize(
    ("retention_ms", "interval_ms"),
    [(1, MIN_INTERVAL_MS), (120_000, 60_000), (120_001, 60_000), (120_002, 60_001), (3_600_000, 1_800_000)],
)
def test_an_interval_is_half_the_retention_but_at_least_a_minute(retention_ms: int, interval_ms: int) -> None:
    assert segment_interval_ms(retention_ms) == interval_ms
