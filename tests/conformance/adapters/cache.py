"""Cache cases."""

from __future__ import annotations

from typing import Any, ClassVar

from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.caching import CacheBudget, CachingStore
from storekeeper.stores.key_value import KeyValueStore
from storekeeper.stores.record_context import POSITION_KEY, decode_position
from tests.conformance.adapters.key_value import KeyValueAdapter
from tests.conformance.backend import Backend


class CacheAdapter(KeyValueAdapter):
    """A cached, logged key-value store; further ones, by namespace, share its budget."""

    kinds: ClassVar[tuple[str, ...]] = ("cache",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        self.budget = CacheBudget(config.get("max_bytes"), config.get("max_entries"))
        self.forwarded: dict[str, list[Any]] = {}
        self.namespaces: dict[str, KeyValueStore[Any, Any]] = {}
        super().__init__(config, backend)

    @property
    def cache(self) -> CachingStore:
        """The cache under test."""
        cache = self.store.layers.cache
        assert cache is not None
        return cache

    def builder(self) -> StoreBuilder:
        return (
            StoreBuilder("conformance", self.backend.supplier)
            .with_logging(self.log)
            .with_caching(self.budget, send_old_values=bool(self.config.get("send_old")))
        )

    def open(self) -> Any:
        return self.listened("", super().open())

    def listened(self, namespace: str, store: KeyValueStore[Any, Any]) -> KeyValueStore[Any, Any]:
        """A store whose flushed changes are collected."""
        store.on_flush(self.forwarded.setdefault(namespace, []).extend)
        return store

    def drained(self, namespace: str = "") -> list[Any]:
        """What was forwarded since the last call."""
        changes = self.forwarded[namespace]
        taken = list(changes)
        changes.clear()
        return taken

    def close(self) -> None:
        for store in self.namespaces.values():
            store.close()
        super().close()

    def do_flush_forward(self) -> list[Any]:
        self.store.flush()
        return self.drained()

    def do_forwarded(self) -> list[Any]:
        return self.drained()

    def do_evict_one(self) -> None:
        self.cache.evict_one()

    def do_evictions(self) -> int:
        return self.cache.evictions

    def do_cache_size(self) -> int:
        return self.cache.cached_entries

    def do_underlying_get(self, key: Any) -> Any:
        data = self.store.layers.restore_target.get(self.key_serde.serialize(key))
        return None if data is None else self.value_serde.deserialize(data)

    def do_underlying_count(self) -> int:
        with self.store.layers.restore_target.scan(None, None) as rows:
            return sum(1 for _ in rows)

    def do_underlying_position(self) -> Any:
        return decode_position(self.store.layers.restore_target.metadata(POSITION_KEY))

    def do_position(self) -> Any:
        return self.store.position

    def do_input(self, topic: str, partition: int, offset: int) -> None:
        self.store.context.move_to(topic, partition, offset)

    def do_put_clean(self, key: Any, value: Any) -> None:
        self.cache.put_clean(self.key_serde.serialize(key), self.value_serde.serialize(value))

    def do_cache_drop(self, key: Any) -> Any:
        data = self.cache.drop(self.key_serde.serialize(key))
        return None if data is None else self.value_serde.deserialize(data)

    def namespace(self, name: str) -> KeyValueStore[Any, Any]:
        """The store of a namespace."""
        if name not in self.namespaces:
            builder = StoreBuilder(f"ns-{name}", self.backend.supplier)
            budgeted = builder.with_caching(self.budget, send_old_values=bool(self.config.get("send_old")))
            self.namespaces[name] = self.listened(name, budgeted.key_value(self.key_serde, self.value_serde))
        return self.namespaces[name]

    def do_ns_put(self, name: str, key: Any, value: Any) -> None:
        self.namespace(name).put(key, value)

    def do_ns_get(self, name: str, key: Any) -> Any:
        return self.namespace(name).get(key)

    def do_ns_flush_forward(self, name: str) -> list[Any]:
        self.namespace(name).flush()
        return self.drained(name)
