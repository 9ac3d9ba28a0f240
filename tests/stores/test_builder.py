"""The builder: which layers stand in which order, and what settings change."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storekeeper.errors import ConfigurationError, InvalidNameError
from storekeeper.serdes.serde import Utf8Serde
from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.caching import CacheBudget, CachingStore
from storekeeper.stores.change_logging import ChangeLoggingStore
from storekeeper.stores.changelog_writer import InMemoryChangelog
from storekeeper.stores.expiry_index import ExpiryIndexStore
from storekeeper.stores.layers import StateStore
from storekeeper.stores.memory import MemoryStore
from storekeeper.stores.metered import MeteredStore
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.segmented import SegmentedStore
from storekeeper.stores.suppliers import RocksDBSupplier
from storekeeper.stores.wrapped import WrappedStore

UTF8 = Utf8Serde()
Build = Callable[[StoreBuilder], StateStore[Any, Any]]
KINDS: dict[str, tuple[Build, list[type]]] = {
    "key_value": (lambda b: b.key_value(UTF8, UTF8), []),
    "timestamped": (lambda b: b.timestamped_key_value(UTF8, UTF8), []),
    "versioned": (lambda b: b.versioned_key_value(UTF8, UTF8, history_retention_ms=10), [ExpiryIndexStore]),
    "ttl": (lambda b: b.ttl_key_value(UTF8, UTF8, ttl_ms=10), [ExpiryIndexStore]),
    "window": (lambda b: b.window(UTF8, UTF8, window_size_ms=1, retention_ms=10), [SegmentedStore]),
    "session": (lambda b: b.session(UTF8, UTF8, retention_ms=10), [SegmentedStore]),
}
every_kind = pytest.mark.parametrize(("build", "arrangement"), KINDS.values(), ids=KINDS)


def stack(store: StateStore[Any, Any]) -> list[type]:
    layers, layer = [], store.layers.top
    while isinstance(layer, WrappedStore):
        layers.append(type(layer))
        layer = layer.inner
    return [*layers, type(layer)]


@every_kind
def test_every_layer_stands_in_its_place(build: Build, arrangement: list[type]) -> None:
    store = build(StoreBuilder("rows").with_logging(InMemoryChangelog()).with_caching())
    assert stack(store) == [MeteredStore, CachingStore, ChangeLoggingStore, *arrangement, MemoryStore]
    layers = store.layers
    assert layers.top is layers.metered
    assert (type(layers.cache), type(layers.logged), type(layers.backend)) == (
        CachingStore, ChangeLoggingStore, MemoryStore,
    )  # fmt: skip
    assert stack(store)[3] is type(layers.restore_target)
    assert (layers.segments is not None) == (SegmentedStore in arrangement)
    assert (layers.expiry_index is not None) == (ExpiryIndexStore in arrangement)
    assert (store.name, store.is_open, store.persistent) == ("rows", True, False)


@every_kind
def test_layers_can_be_left_out(build: Build, arrangement: list[type]) -> None:
    bare = build(StoreBuilder("rows").with_metrics_disabled())
    assert stack(bare) == [*arrangement, MemoryStore]
    assert (bare.layers.metered, bare.layers.cache) == (None, None)
    assert stack(build(StoreBuilder("rows").with_logging(InMemoryChangelog()))) == [
        MeteredStore, ChangeLoggingStore, *arrangement, MemoryStore,
    ]  # fmt: skip


def test_each_setting_gives_a_changed_copy() -> None:
    plain, log, budget, context = StoreBuilder("rows"), InMemoryChangelog(), CacheBudget(), RecordContext()
    changed = plain.with_logging(log).with_caching(budget, send_old_values=True).with_context(context)
    assert (plain.changelog, plain.cache, plain.send_old_values) == (None, None, False)
    assert (changed.changelog, changed.cache, changed.send_old_values) == (log, budget, True)
    assert changed.context is context
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.name = "other"  # type: ignore[misc]


def test_stores_of_one_task_share_their_context() -> None:
    context = RecordContext()
    stores = [StoreBuilder(name).with_context(context).key_value(UTF8, UTF8) for name in ("one", "two")]
    context.move_to("pos", 0, 7)
    for store in stores:
        store.put("a", "1")
    assert [store.position for store in stores] == [{"pos": {"0": 7}}] * 2
    assert StoreBuilder("one").context is not StoreBuilder("two").context


def test_a_cache_without_a_budget_has_one_of_its_own() -> None:
    one, two = StoreBuilder("one").with_caching(), StoreBuilder("two").with_caching()
    assert one.cache is not two.cache
    assert one.cache == CacheBudget()


WRONG: dict[str, Callable[[StoreBuilder], object]] = {
    "window": lambda b: b.window(UTF8, UTF8, window_size_ms=10, retention_ms=9),
    "session": lambda b: b.session(UTF8, UTF8, retention_ms=0),
    "ttl": lambda b: b.ttl_key_value(UTF8, UTF8, ttl_ms=0),
    "versioned": lambda b: b.versioned_key_value(UTF8, UTF8, history_retention_ms=-1),
}


@pytest.mark.parametrize("build", WRONG.values(), ids=WRONG)
def test_settings_that_can_not_work_are_refused_before_anything_is_opened(
    tmp_path: Path, build: Callable[[StoreBuilder], object]
) -> None:
    with pytest.raises(ConfigurationError):
        build(StoreBuilder("rows", RocksDBSupplier(tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_a_name_is_checked_when_the_store_is_opened() -> None:
    with pytest.raises(InvalidNameError):
        StoreBuilder("../up").key_value(UTF8, UTF8)
