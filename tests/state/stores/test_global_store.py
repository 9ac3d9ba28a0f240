"""The global store: records in, rows out, and nothing but reads for everyone else."""

from __future__ import annotations

from pathlib import Path

import pytest

from state.errors import ConfigurationError, StoreClosedError
from state.serdes.serde import Utf8Serde
from state.stores.builder import StoreBuilder
from state.stores.bytes_store import Entry
from state.stores.changelog_writer import InMemoryChangelog
from state.stores.global_store import GlobalStore
from state.stores.suppliers import RocksDBSupplier

UTF8 = Utf8Serde()


def test_records_become_rows_in_their_order_together_with_the_position() -> None:
    rows = StoreBuilder("cards").key_value(UTF8, UTF8)
    store = GlobalStore(rows)
    store.apply([(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None)], {b"position": b"4"})
    assert (store.name, dict(store.view.all())) == ("cards", {"a": "2"})
    assert rows.layers.backend.metadata(b"position") == b"4"


def test_records_without_a_key_are_skipped_and_counted() -> None:
    store = GlobalStore(StoreBuilder("cards").key_value(UTF8, UTF8))
    store.apply([(None, b"1"), (b"a", b"1"), (None, None)], {})
    store.apply([(None, b"1")], {})
    assert (store.skipped_total, dict(store.view.all())) == (3, {"a": "1"})


def test_a_record_may_become_none_one_or_several_rows_and_the_view_is_always_the_latest() -> None:
    def split(key: bytes, value: bytes | None) -> list[Entry]:
        if value is None:
            return [(key, None)]
        return [(key + part, part) for part in value.split()]

    store = GlobalStore(StoreBuilder("cards").key_value(UTF8, UTF8), split)
    view = store.view
    store.apply([(b"k", b"a b"), (b"l", b"")], {})
    assert dict(view.all()) == {"ka": "a", "kb": "b"}
    store.apply([(b"ka", None)], {})
    assert (view.get("ka"), view.get("kb")) == (None, "b")


def test_a_restart_holds_the_same_transformed_rows(tmp_path: Path) -> None:
    builder = StoreBuilder("cards", RocksDBSupplier(tmp_path))
    for part in ([(b"a", b"1"), (b"b", b"1")], [(b"b", None), (b"c", b"1")]):
        store = GlobalStore(builder.key_value(UTF8, UTF8), lambda key, value: [(key.upper(), value)])
        store.apply(part, {})
        store.flush()
        shown = dict(store.view.all())
        store.close()
    assert shown == {"A": "1", "C": "1"}


def test_what_is_applied_is_not_logged_again() -> None:
    log = InMemoryChangelog()
    store = GlobalStore(StoreBuilder("cards").with_logging(log).key_value(UTF8, UTF8))
    store.apply([(b"a", b"1")], {})
    assert log.records == []


def test_a_cache_is_refused_as_it_would_hide_what_is_applied() -> None:
    with pytest.raises(ConfigurationError, match="cache"):
        GlobalStore(StoreBuilder("cards").with_caching().key_value(UTF8, UTF8))


def test_the_view_only_reads_and_ends_with_the_store() -> None:
    store = GlobalStore(StoreBuilder("cards").key_value(UTF8, UTF8))
    view = store.view
    for name in ("put", "put_all", "delete", "transaction", "restore_batch", "close", "flush"):
        assert not hasattr(view, name)
    store.close()
    store.close()
    with pytest.raises(StoreClosedError):
        view.get("a")
    with pytest.raises(StoreClosedError):
        store.apply([], {})
