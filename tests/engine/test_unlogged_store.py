"""A store without a changelog has the rows of all committed batches or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from storekeeper.engine.store_backends import RocksDBBackend
from storekeeper.engine.unlogged_store import UnloggedStore
from storekeeper.stores.iterators import Row
from storekeeper.topology import Store, StreamsBuilder


@pytest.fixture
def holder(tmp_path: Path) -> RocksDBBackend:
    streams = StreamsBuilder("app")
    streams.stream("in", str).group_by_key().count(store=Store("seen", int, logging=False))
    [spec] = streams.build().sub_topologies[0].stores
    return RocksDBBackend(spec, tmp_path / "seen")


def after(holder: RocksDBBackend, committed: bytes | None, *, applied: bytes | None = None) -> list[Row]:
    """The rows that a task begins with after a committed batch. It may write another one."""
    store = UnloggedStore("seen", holder)
    store.catch_up(committed)
    with store.backend.scan(None, None) as rows:
        found = list(rows)
    if applied is not None:
        store.backend.write([(applied, b"row")], store.written(applied))
    store.close()
    return found


def test_a_store_that_has_the_last_batch_keeps_its_rows(holder: RocksDBBackend) -> None:
    assert after(holder, None, applied=b"query 0") == []
    assert after(holder, b"query 0", applied=b"query 1") == [(b"query 0", b"row")]
    assert after(holder, b"query 1") == [(b"query 0", b"row"), (b"query 1", b"row")]


@pytest.mark.parametrize(
    "committed", [b"query 1", b"other 0", None], ids=["it lacks one", "another checkpoint", "none"]
)
def test_a_store_that_has_another_batch_begins_empty(holder: RocksDBBackend, committed: bytes | None) -> None:
    after(holder, None, applied=b"query 0")
    assert after(holder, committed, applied=b"query 2") == []
    assert after(holder, b"query 2") == [(b"query 2", b"row")]


def test_a_damaged_store_is_set_aside(holder: RocksDBBackend) -> None:
    after(holder, None, applied=b"query 0")
    (holder.folder / "CURRENT").write_bytes(b"?")
    assert after(holder, b"query 0", applied=b"query 1") == []
    assert len(list(holder.folder.parent.glob("seen.corrupt-*"))) == 1
