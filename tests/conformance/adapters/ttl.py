"""TTL cases: rows that expire, values by time with a grace, and windows that are taken out once they are over."""

from __future__ import annotations

from typing import Any, ClassVar

from storekeeper.errors import InvalidWindowError
from storekeeper.serdes.json import JsonSerde
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.serdes.serde import Serde
from storekeeper.topology.store import StoreKind
from tests.conformance.adapter import SERDES, Adapter, UnsupportedCaseError
from tests.conformance.backend import Backend
from tests.stores.task_store import TaskStore, store_spec


class TtlAdapter(Adapter):
    """Rows with a TTL, a store for each TTL; and stores of windows and sessions. `commit` ends their batch."""

    kinds: ClassVar[tuple[str, ...]] = ("ttl",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        self.keys = SERDES[config.get("key_type", "utf8")]
        self.values = SERDES[config.get("value_type", "utf8")]
        self.by_ttl: dict[int, TaskStore] = {}
        self.late: set[Any] = set()
        self.of_times = self.opened(StoreKind.WINDOW, "times", MAX_TIMESTAMP_MS)
        self.of_windows = self.opened(StoreKind.SESSION, "windows", MAX_TIMESTAMP_MS, JsonSerde())

    @property
    def times(self) -> Any:
        """The store of values by time."""
        return self.of_times.store

    @property
    def windows(self) -> Any:
        """The store of windows."""
        return self.of_windows.store

    def opened(self, kind: StoreKind, name: str, retention_ms: int, values: Serde[Any] | None = None) -> TaskStore:
        """A store of a task."""
        spec = store_spec(kind, name=name, keys=self.keys, values=values or self.values, retention_ms=retention_ms)
        return TaskStore(spec, self.backend)

    @property
    def tasks(self) -> list[TaskStore]:
        """All stores."""
        return [*self.by_ttl.values(), self.of_times, self.of_windows]

    def close(self) -> None:
        for task in self.tasks:
            task.close()

    def do_put_ttl(self, key: Any, value: Any, timestamp_ms: int, ttl_ms: int) -> None:
        """Puts the row into the store with that TTL. A task's records move the time of all its stores."""
        if ttl_ms not in self.by_ttl:
            self.by_ttl[ttl_ms] = self.opened(StoreKind.TTL, f"rows-{ttl_ms}", ttl_ms)
        for ttl, task in self.by_ttl.items():
            task.store.stream_time.observe(timestamp_ms)
            if ttl != ttl_ms:
                task.store.delete(key)
        store = self.by_ttl[ttl_ms].store
        store.put(key, value, timestamp_ms)
        if value is not None and store.get(key) is None:
            self.late.add(key)

    def do_get(self, key: Any) -> Any:
        found = (task.store.get(key) for task in self.by_ttl.values())
        return next((value for value in found if value is not None), None)

    def do_delete(self, key: Any) -> Any:
        found = [task.store.delete(key) for task in self.by_ttl.values()]
        return next((value for value in found if value is not None), None)

    def do_commit(self) -> None:
        for task in self.tasks:
            task.end_batch()

    def do_commit_and_sweep(self) -> None:
        self.do_commit()

    def do_physically_present(self, key: Any) -> bool:
        if key in self.late:
            raise UnsupportedCaseError("choice: a row that has expired when it is put goes with its batch")
        data = self.keys.serialize(key)
        return any(task.below.get(data) is not None for task in self.by_ttl.values())

    def do_expiry_index_size(self) -> int:
        return sum(task.store.layers.expiry_index.index_size() for task in self.by_ttl.values())

    def do_put_at(self, key: Any, value: Any, timestamp_ms: int) -> None:
        self.times.put(key, value, timestamp_ms)

    def do_get_latest(self, key: Any, timestamp_ms: int) -> Any:
        """The latest value at or before a time, unless it is older than the key's grace."""
        with self.times.backward_fetch(key, self.oldest_eligible_ms(key), timestamp_ms) as values:
            return next((value for _, value in values), None)

    def oldest_eligible_ms(self, key: Any) -> int:
        """Newest time of the key, or of the partition, minus the grace; that very time is still eligible."""
        if self.config.get("scope", "per_key") != "per_key":
            newest_ms = self.times.stream_time.observed_ms
        else:
            with self.times.backward_fetch(key, 0, MAX_TIMESTAMP_MS) as values:
                newest_ms = next((start_ms for start_ms, _ in values), 0)
        return max(newest_ms - int(self.config.get("grace", MAX_TIMESTAMP_MS)), 0)

    def do_wput(self, key: Any, start_ms: int, end_ms: int, value: Any, timestamp_ms: int) -> None:
        self.check_window(start_ms, end_ms)
        self.windows.put(key, start_ms, end_ms, [value, timestamp_ms])

    def do_wget(self, key: Any, start_ms: int, end_ms: int) -> Any:
        self.check_window(start_ms, end_ms)
        found = self.windows.fetch_session(key, start_ms, end_ms)
        return None if found is None else found[0]

    def do_expire_windows(self, key: Any, watermark_ms: int) -> list[Any]:
        """Takes out the windows that started at or before the watermark."""
        with self.windows.find_sessions(key, 0, watermark_ms) as found:
            expired = [[start_ms, end_ms, value] for (_, start_ms, end_ms), (value, _) in found]
        for start_ms, end_ms, _ in expired:
            self.windows.remove(key, start_ms, end_ms)
        return sorted(expired)

    def check_window(self, start_ms: int, end_ms: int) -> None:
        """A window's end is the first millisecond behind it."""
        if end_ms <= start_ms:
            msg = f"a window can't end at {end_ms} when it starts at {start_ms}"
            raise InvalidWindowError(msg)
