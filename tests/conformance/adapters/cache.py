"""Cache cases. A task's record cache is its batch: rows wait in it, and only the last change of each goes on.

It has no bound but the batch's. So where the peers' cache would evict a row that waits, the batch ends: the adapter
keeps the order in which the rows were used.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

from storekeeper.errors import InvalidArgumentError
from storekeeper.serdes.timestamped import ValueAndTimestamp, stamped
from storekeeper.topology.topology_store import TopologyStore
from tests.conformance.adapters.key_value import KeyValueAdapter
from tests.conformance.backend import Backend
from tests.conformance.inputs import Inputs
from tests.stores.task_store import TaskStore, store_spec
from tests.topology.operators.built import source_table
from tests.topology.operators.observed import Observed


class CachedTable:
    """A table with `caching`, as a task has it, and how its rows were used."""

    def __init__(self, task: TaskStore) -> None:
        self.task = task
        self.source = source_table(task.store)
        self.source.enable_sending_old_values()
        self.release: Callable[[], None] = self.source.hold_back(task.context)
        self.observed = Observed(self.source)
        self.used: OrderedDict[Any, None] = OrderedDict()
        self.waiting: set[Any] = set()
        self.evictions = 0

    def upsert(self, key: Any, value: Any) -> None:
        """Puts a row, or deletes it."""
        self.source.upsert(key, value, 0)
        self.waiting.add(key)
        self.use(key)

    def use(self, key: Any) -> None:
        """The row was used last."""
        self.used[key] = None
        self.used.move_to_end(key)

    def end_batch(self) -> None:
        """Lets the last change of each row go, and writes the rows."""
        self.release()
        self.task.end_batch()
        self.waiting.clear()

    def evict_one(self) -> None:
        """Evicts the row that was not used for longest; if it waits, the batch ends."""
        oldest = next(iter(self.used), None)
        if oldest is None:
            return
        if oldest in self.waiting:
            self.end_batch()
        del self.used[oldest]
        self.evictions += 1


class CacheAdapter(KeyValueAdapter):
    """A table with caching; further ones, by namespace, share the bound of its rows."""

    kinds: ClassVar[tuple[str, ...]] = ("cache",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__({**config, "cache": True}, backend)
        self.inputs = Inputs()
        self.table = CachedTable(self.task)
        self.namespaces: dict[str, CachedTable] = {}

    def spec(self) -> TopologyStore:
        return store_spec(keys=self.key_serde, values=self.value_serde, timestamped=True)

    def close(self) -> None:
        for table in self.namespaces.values():
            table.task.close()
        super().close()

    def bounded(self, table: CachedTable) -> None:
        """Evicts what is too much; a table that goes over the bound evicts rows of its own."""
        while table.used and self.is_full:
            table.evict_one()

    @property
    def is_full(self) -> bool:
        tables = [self.table, *self.namespaces.values()]
        rows = sum(len(table.used) for table in tables)
        size = sum(len(str(key)) + 120 for table in tables for key in table.used)
        return rows > self.config.get("max_entries", rows) or size > (self.config.get("max_bytes") or size)

    def drained(self, table: CachedTable) -> list[Any]:
        """What went on since the last call."""
        sends_old = bool(self.config.get("send_old"))
        return [[key, new, old if sends_old else None] for key, new, old in table.observed.changes()]

    def do_put(self, key: Any, value: Any) -> None:
        self.inputs.wrote()
        self.table.upsert(key, value)
        self.bounded(self.table)

    def do_get(self, key: Any) -> Any:
        row: ValueAndTimestamp[Any] | None = self.table.source.get(key)
        if row is not None:
            self.table.use(key)
            self.bounded(self.table)
        return None if row is None else row.value

    def do_delete(self, key: Any) -> Any:
        deleted = self.do_get(key)
        self.do_put(key, None)
        return deleted

    def do_put_if_absent(self, key: Any, value: Any) -> Any:
        there = self.do_get(key)
        if there is None and value is not None:
            self.do_put(key, value)
        return there

    def do_put_all(self, entries: list[list[Any]]) -> None:
        for key, value in entries:
            self.do_put(key, value)

    def between(self, low: Any, high: Any) -> list[Any]:
        """The rows of a range, those that wait included."""
        encode = self.key_serde.serialize
        start, end = (None if bound is None else encode(bound) for bound in (low, high))
        return [
            [key, row.value]
            for key, row in self.task.store.all()
            if (start is None or encode(key) >= start) and (end is None or encode(key) <= end)
        ]

    def do_range(self, low: Any, high: Any) -> list[Any]:
        return self.between(low, high)

    def do_reverse_range(self, low: Any, high: Any) -> list[Any]:
        return self.between(low, high)[::-1]

    def do_all(self) -> list[Any]:
        return self.between(None, None)

    def do_reverse_all(self) -> list[Any]:
        return self.between(None, None)[::-1]

    def do_count(self) -> int:
        return len(self.between(None, None))

    def do_flush(self) -> None:
        self.inputs.commit()
        self.table.end_batch()

    def do_flush_forward(self) -> list[Any]:
        self.do_flush()
        return self.do_forwarded()

    def do_forwarded(self) -> list[Any]:
        return self.drained(self.table)

    def do_evict_one(self) -> None:
        self.table.evict_one()

    def do_evictions(self) -> int:
        return self.table.evictions

    def do_cache_size(self) -> int:
        return len(self.table.used)

    def do_underlying_get(self, key: Any) -> Any:
        data = self.task.backend.get(self.key_serde.serialize(key))
        return None if data is None else self.value_serde.deserialize(data[8:])

    def do_underlying_count(self) -> int:
        with self.task.backend.scan(None, None) as rows:
            return sum(1 for _ in rows)

    def do_position(self) -> Any:
        return self.inputs.written()

    def do_underlying_position(self) -> Any:
        return self.inputs.committed()

    def do_input(self, topic: str, partition: int, offset: int) -> None:
        self.inputs.move_to(topic, partition, offset)

    def do_put_clean(self, key: Any, value: Any) -> None:
        """A row that the store below has, and that was read."""
        if key in self.table.waiting:
            raise InvalidArgumentError("a row that waits can't be a clean one")
        data = self.value_serde.serialize(value)
        self.task.backend.write([(self.key_serde.serialize(key), stamped(data, 0))])
        self.do_get(key)

    def do_cache_drop(self, key: Any) -> Any:
        self.table.used.pop(key, None)
        return self.do_get(key)

    def namespace(self, name: str) -> CachedTable:
        """The table of a namespace."""
        if name not in self.namespaces:
            spec = store_spec(name=f"ns-{name}", keys=self.key_serde, values=self.value_serde, timestamped=True)
            self.namespaces[name] = CachedTable(TaskStore(spec, self.backend))
        return self.namespaces[name]

    def do_ns_put(self, name: str, key: Any, value: Any) -> None:
        table = self.namespace(name)
        table.upsert(key, value)
        self.bounded(table)

    def do_ns_get(self, name: str, key: Any) -> Any:
        row: ValueAndTimestamp[Any] | None = self.namespace(name).source.get(key)
        return None if row is None else row.value

    def do_ns_flush_forward(self, name: str) -> list[Any]:
        self.namespace(name).end_batch()
        return self.drained(self.namespace(name))
