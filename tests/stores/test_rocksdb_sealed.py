"""Rows that another program changed are found when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storekeeper.errors import StoreCorruptedError
from storekeeper.stores.bytes_store import BytesStore
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.stores.rocksdb_sealed import open_sealed

ROWS = {b"a": b"apple", b"b": b"bread", b"c": b"", b"d": b"dough"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = open_sealed(tmp_path / "rows", "rows")
    store.write(ROWS.items(), {b"position": b"7"})
    store.close()
    return tmp_path / "rows"


@pytest.fixture
def changed(folder: Path) -> Iterator[Callable[..., BytesStore]]:
    """Opens the store after a program that knows no seals has written to it."""
    opened: list[BytesStore] = []

    def change(write: Callable[[BytesStore], object]) -> BytesStore:
        store = open_rocksdb(folder, "rows")
        write(store)
        store.close()
        opened.append(open_sealed(folder, "rows"))
        return opened[-1]

    yield change
    for store in opened:
        store.close()


def test_what_was_written_is_read_by_every_way(folder: Path) -> None:
    store = open_sealed(folder, "rows")
    assert {key: store.get(key) for key in ROWS} == ROWS
    assert store.get_many([b"x", *ROWS]) == [None, *ROWS.values()]
    for reverse in (False, True):
        with store.scan(None, None, reverse=reverse) as rows:
            assert list(rows) == sorted(ROWS.items(), reverse=reverse)
    assert (store.metadata(b"position"), store.metadata(b"none")) == (b"7", None)
    store.write([(b"a", None)], {b"position": None})
    assert (store.get(b"a"), store.metadata(b"position")) == (None, None)
    store.close()


def _edit(store: BytesStore) -> None:
    store.write([(b"b", (store.get(b"b") or b"").replace(b"bread", b"brown"))])


def _swap(store: BytesStore) -> None:
    store.write([(b"b", store.get(b"d"))])


def _shorten(store: BytesStore) -> None:
    store.write([(b"b", b"")])


@pytest.mark.parametrize("write", [_edit, _swap, _shorten])
def test_a_changed_row_is_refused_by_every_way(changed: Callable[..., BytesStore], write: object) -> None:
    store = changed(write)
    assert store.get(b"a") == b"apple"
    ways: list[Callable[[], object]] = [
        lambda: store.get(b"b"),
        lambda: store.get_many([b"a", b"b"]),
        lambda: list(store.scan(None, None)),
        lambda: list(store.scan(None, None, reverse=True)),
    ]
    for read in ways:
        with pytest.raises(StoreCorruptedError, match="not as it was written"):
            read()


def test_changed_metadata_are_refused(changed: Callable[..., BytesStore]) -> None:
    store = changed(lambda store: store.write((), {b"position": b"9" + (store.metadata(b"position") or b"")[1:]}))
    with pytest.raises(StoreCorruptedError):
        store.metadata(b"position")
