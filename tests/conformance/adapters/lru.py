"""Cases of the in-memory LRU store."""

from __future__ import annotations

from typing import Any, ClassVar

from storekeeper.topology.store import Store
from storekeeper.topology.topology_store import TopologyStore
from tests.conformance.adapters.key_value import KeyValueAdapter
from tests.conformance.backend import Backend
from tests.stores.task_store import TaskStore, store_spec


class LruAdapter(KeyValueAdapter):
    """A bounded store, in memory only."""

    kinds: ClassVar[tuple[str, ...]] = ("lru_store",)
    backends: ClassVar[tuple[str, ...]] = ("memory",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        self.task = TaskStore(self.spec(), log=self.log)
        self.deleted = 0

    def spec(self) -> TopologyStore:
        options: Store[Any] = Store("rows", backend="memory", max_rows=self.config["max_entries"])
        return store_spec(keys=self.key_serde, values=self.value_serde, options=options)

    def do_put(self, key: Any, value: Any) -> None:
        self.deleted += value is None
        super().do_put(key, value)

    def do_delete(self, key: Any) -> Any:
        self.deleted += 1
        return super().do_delete(key)

    def do_evictions(self) -> int:
        """The rows that the changelog deletes and nobody else has deleted."""
        return sum(change.value is None for change in self.log) - self.deleted
