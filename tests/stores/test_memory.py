"""The in-memory backend: what a scan shows of changes meanwhile, and readers beside the writer."""

from __future__ import annotations

import threading
from typing import Any

from storekeeper.stores.memory import MemoryStore


def test_a_scan_skips_what_was_deleted_and_shows_what_was_overwritten_meanwhile() -> None:
    store = MemoryStore("rows")
    store.write([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    rows = store.scan(None, None)
    assert next(rows) == (b"a", b"1")
    store.write([(b"b", None), (b"c", b"2"), (b"d", b"1")])
    assert list(rows) == [(b"c", b"2")]


def test_a_reader_never_sees_the_sorted_keys_half_split() -> None:
    store = MemoryStore("rows")
    store.write([(b"%06d" % number, b"v") for number in range(2000)])
    seen: list[int] = []
    scanned = threading.Event()

    def read() -> None:
        seen.append(sum(1 for _ in store.scan(None, None)))
        scanned.set()

    reader = threading.Thread(target=read)

    class Splitting(list[Any]):
        """A list of lists that lets the reader in right after one was split, unless it has to wait for the writer."""

        def insert(self, index: Any, item: Any) -> None:
            super().insert(index, item)
            reader.start()
            scanned.wait(0.1)

    keys: Any = store._rows
    keys = keys._list
    keys._lists = Splitting(keys._lists)
    store.write([(b"%06d" % number, b"v") for number in range(2000, 2001)])
    reader.join(30)
    assert seen == [2001]


def test_a_write_may_be_made_from_a_scan_of_the_same_store() -> None:
    store = MemoryStore("rows")
    store.write([(b"a", b"1"), (b"b", b"2")])
    store.write((key, value * 2) for key, value in store.scan(None, None))
    assert list(store.scan(None, None)) == [(b"a", b"11"), (b"b", b"22")]
