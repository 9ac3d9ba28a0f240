"""Cases of a store whose rows get another format: from plain to timestamped.

A task has rows of another format from the changelog, which has the time of each row. It brings a store up to date when
a batch begins: until then the store is on its way.
"""

from __future__ import annotations

from typing import Any, ClassVar

from storekeeper.serdes.timestamped import UNKNOWN_TIMESTAMP_MS, ValueAndTimestamp
from storekeeper.topology.records import StoreChange
from tests.conformance.adapter import Adapter
from tests.conformance.backend import Backend
from tests.stores.task_store import TaskStore, store_spec


class MigrationAdapter(Adapter):
    """A plain store, then a timestamped one over the same changelog."""

    kinds: ClassVar[tuple[str, ...]] = ("migration",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        self.log: list[StoreChange] = []
        self.old: TaskStore | None = TaskStore(store_spec(name="plain"), backend, self.log)
        self.new: TaskStore | None = None
        self.upgraded = True

    def close(self) -> None:
        for task in (self.old, self.new):
            if task is not None:
                task.close()

    @property
    def task(self) -> TaskStore:
        """The task with the store of the new format, once a batch has begun."""
        if self.new is None:
            self.new = TaskStore(store_spec(name="timestamped", timestamped=True), self.backend, self.log)
            self.upgraded = True
        return self.new

    def do_old_put(self, key: str, value: str) -> None:
        assert self.old is not None
        self.old.store.put(key, value)
        self.old.end_batch()

    def do_open_new_format(self) -> None:
        assert self.old is not None
        self.old.close()
        self.old, self.upgraded = None, not self.log

    def do_reopen(self) -> None:
        if self.new is not None:
            self.new.reopen()

    def do_mode(self) -> str:
        return "regular" if self.upgraded else "upgrade"

    def do_put(self, key: str, value: Any) -> None:
        plain, timestamp_ms = value if isinstance(value, list) else (value, UNKNOWN_TIMESTAMP_MS)
        self.task.store.put(key, None if plain is None else ValueAndTimestamp(plain, timestamp_ms))
        self.task.end_batch()

    def do_put_if_absent(self, key: str, value: list[Any]) -> Any:
        there = self.do_get(key)
        if there is None:
            self.do_put(key, value)
        return there

    def do_get(self, key: str) -> Any:
        return self.task.store.get(key)

    def do_delete(self, key: str) -> Any:
        there = self.do_get(key)
        self.do_put(key, None)
        return there

    def rows(self) -> list[Any]:
        """All rows."""
        return [[key, row] for key, row in self.task.store.all()]

    def do_count(self) -> int:
        return len(self.rows())

    def do_approximate_num_entries(self) -> int:
        return int(self.task.backend.approximate_num_entries())

    def do_range(self, low: Any, high: Any) -> list[Any]:
        return [row for row in self.rows() if (low is None or row[0] >= low) and (high is None or row[0] <= high)]

    def do_reverse_range(self, low: Any, high: Any) -> list[Any]:
        return self.do_range(low, high)[::-1]

    def do_all(self) -> list[Any]:
        return self.rows()

    def do_reverse_all(self) -> list[Any]:
        return self.rows()[::-1]

    def do_prefix_scan(self, prefix: str) -> list[Any]:
        return [row for row in self.rows() if row[0].startswith(prefix)]

    def do_flush(self) -> None:
        self.task.end_batch()

    def do_close(self) -> None:
        self.close()
