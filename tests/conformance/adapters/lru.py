"""Cases of the in-memory LRU store."""

from __future__ import annotations

from typing import Any, ClassVar

from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.lru import LruStore
from storekeeper.stores.suppliers import LruSupplier
from tests.conformance.adapters.key_value import KeyValueAdapter


class LruAdapter(KeyValueAdapter):
    """A logged LRU store. It lives in memory only."""

    kinds: ClassVar[tuple[str, ...]] = ("lru_store",)
    backends: ClassVar[tuple[str, ...]] = ("memory",)

    def builder(self) -> StoreBuilder:
        return StoreBuilder("conformance", LruSupplier(self.config["max_entries"])).with_logging(self.log)

    def do_evictions(self) -> Any:
        backend = self.store.layers.backend
        assert isinstance(backend, LruStore)
        return backend.evictions
