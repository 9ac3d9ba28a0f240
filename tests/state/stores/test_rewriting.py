"""Rewriting: every old row becomes current, in steps that can be cut off, and the place is kept with the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from state.errors import InvalidArgumentError, SerializationError
from state.serdes.json import JsonSerde
from state.serdes.serde import BytesSerde, Utf8Serde
from state.serdes.versioned import SchemaVersions, VersionedSerde
from state.stores.builder import StoreBuilder
from state.stores.changelog_writer import InMemoryChangelog
from state.stores.key_value import KeyValueStore
from state.stores.rewriting import CURSOR_KEY, LazyRewriter, RewriteStep
from state.stores.suppliers import RocksDBSupplier

UTF8 = Utf8Serde()
OLD: VersionedSerde[Any] = VersionedSerde(SchemaVersions({1: UTF8}))
NEW: VersionedSerde[Any] = VersionedSerde(SchemaVersions({1: UTF8, 2: JsonSerde()}, {1: int}))


def filled(builder: StoreBuilder, count: int) -> KeyValueStore[str, bytes]:
    store = builder.key_value(UTF8, BytesSerde())
    store.put_all([(f"k{number}", OLD.serialize(str(number))) for number in range(count)])
    return store


def outdated(store: KeyValueStore[str, bytes]) -> list[str]:
    return [key for key, data in store.all() if NEW.is_outdated(data)]


def test_a_step_looks_at_so_many_rows_and_says_what_it_did() -> None:
    store = filled(StoreBuilder("rows"), 5)
    store.put("k1", NEW.serialize(1))
    rewriter = LazyRewriter(store, NEW)
    assert rewriter.step(limit=3) == RewriteStep(scanned=3, rewritten=2, done=False)
    assert outdated(store) == ["k3", "k4"]
    assert rewriter.step(limit=3) == RewriteStep(scanned=2, rewritten=2, done=True)
    assert [NEW.deserialize(data) for _, data in store.all()] == [0, 1, 2, 3, 4]


def test_the_end_is_known_once_a_step_finds_less_than_it_may() -> None:
    rewriter = LazyRewriter(filled(StoreBuilder("rows"), 2), NEW)
    assert [rewriter.step(limit=2).done, rewriter.step(limit=2).done] == [False, True]
    assert LazyRewriter(filled(StoreBuilder("rows"), 0), NEW).step() == RewriteStep(0, 0, done=True)


def test_another_process_goes_on_where_the_last_step_ended(tmp_path: Path) -> None:
    builder = StoreBuilder("rows", RocksDBSupplier(tmp_path))
    store = filled(builder, 4)
    LazyRewriter(store, NEW).step(limit=3)
    store.close()
    again = builder.key_value(UTF8, BytesSerde())
    assert LazyRewriter(again, NEW).step(limit=3) == RewriteStep(scanned=1, rewritten=1, done=True)
    assert again.layers.backend.metadata(CURSOR_KEY) is None
    again.close()


def test_rewritten_rows_are_logged_and_current_ones_are_not() -> None:
    log = InMemoryChangelog()
    store = filled(StoreBuilder("rows").with_logging(log).with_caching(), 1)
    store.put("current", NEW.serialize(7))
    store.flush()
    log.records.clear()
    LazyRewriter(store, NEW).step()
    store.flush()
    assert [(record.key, record.value) for record in log.records] == [(b"k0", NEW.serialize(0))]


def test_a_row_that_can_not_be_read_leaves_the_step_undone() -> None:
    store = filled(StoreBuilder("rows"), 3)
    store.put("k1", b"\x00\x09later")
    rewriter = LazyRewriter(store, NEW)
    with pytest.raises(SerializationError):
        rewriter.step()
    assert (outdated(store), store.layers.backend.metadata(CURSOR_KEY)) == (["k0", "k1", "k2"], None)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_step_of_no_rows_is_refused(limit: int) -> None:
    with pytest.raises(InvalidArgumentError):
        LazyRewriter(filled(StoreBuilder("rows"), 1), NEW).step(limit=limit)
