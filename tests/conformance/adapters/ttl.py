"""TTL cases: rows that expire, values by time with a grace, and windows that are taken out once they are over."""

from __future__ import annotations

from typing import Any, ClassVar

from storekeeper.errors import InvalidWindowError
from storekeeper.serdes.json import JsonSerde
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.caching import CacheBudget
from tests.conformance.adapter import SERDES, Adapter
from tests.conformance.backend import Backend


class TtlAdapter(Adapter):
    """Three stores, cached: what waits in the cache is the pending transaction, a flush commits it."""

    kinds: ClassVar[tuple[str, ...]] = ("ttl",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        self.keys = SERDES[config.get("key_type", "utf8")]
        values = SERDES[config.get("value_type", "utf8")]
        self.rows = self.builder("rows").ttl_key_value(self.keys, values, ttl_ms=None)
        self.times = self.builder("times").window(self.keys, values, window_size_ms=1, retention_ms=MAX_TIMESTAMP_MS)
        self.windows = self.builder("windows").session(self.keys, JsonSerde(), retention_ms=MAX_TIMESTAMP_MS)

    def builder(self, name: str) -> StoreBuilder:
        """How each store is built."""
        return StoreBuilder(name, self.backend.supplier).with_caching(CacheBudget(max_bytes=None))

    def close(self) -> None:
        for store in (self.rows, self.times, self.windows):
            store.close()

    def do_put_ttl(self, key: Any, value: Any, timestamp_ms: int, ttl_ms: int) -> None:
        self.rows.put(key, value, timestamp_ms, ttl_ms)

    def do_get(self, key: Any) -> Any:
        return self.rows.get(key)

    def do_delete(self, key: Any) -> Any:
        return self.rows.delete(key)

    def do_commit(self) -> None:
        for store in (self.rows, self.times, self.windows):
            store.flush()

    def do_commit_and_sweep(self) -> None:
        self.rows.sweep()
        self.do_commit()

    def do_physically_present(self, key: Any) -> bool:
        return self.rows.layers.restore_target.get(self.keys.serialize(key)) is not None

    def do_expiry_index_size(self) -> int:
        index = self.rows.layers.expiry_index
        assert index is not None
        return index.index_size()

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
