"""Window cases."""

from __future__ import annotations

from typing import Any, ClassVar

from storekeeper.errors import IteratorClosedError
from storekeeper.serdes.keys.windows import decode_window_row_key, window_row_key
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.store import StoreKind
from storekeeper.topology.topology_store import TopologyStore
from tests.conformance.adapters.key_value import KeyValueAdapter
from tests.stores.task_store import store_spec


class WindowAdapter(KeyValueAdapter):
    """A logged window store."""

    kinds: ClassVar[tuple[str, ...]] = ("window",)

    def spec(self) -> TopologyStore:
        return store_spec(
            StoreKind.WINDOW,
            keys=self.key_serde,
            values=self.value_serde,
            window_size_ms=self.config.get("window_size", 1),
            retention_ms=self.config["retention"],
            retain_duplicates=self.config.get("retain_duplicates", False),
        )

    def item(self, row: Any) -> Any:
        key, value = row
        return [key.key, key.start_ms, value] if isinstance(key, Windowed) else [key, value]

    def encoded(self, entries: list[list[Any]]) -> list[tuple[bytes, bytes | None]]:
        return [
            (
                window_row_key(self.key_serde.serialize(key), start_ms, sequence),
                None if value is None else self.value_serde.serialize(value),
            )
            for (key, start_ms, sequence), value in entries
        ]

    def logged(self, key: bytes, value: bytes | None) -> list[Any]:
        plain_key, start_ms, sequence = decode_window_row_key(key)
        shown = None if value is None else self.value_serde.deserialize(value)
        return [[self.key_serde.deserialize(plain_key), start_ms, sequence], shown]

    def do_put(self, key: Any, value: Any, start_ms: int) -> None:  # type: ignore[override]
        self.store.put(key, value, start_ms)
        self.wrote()

    def do_fetch_one(self, key: Any, start_ms: int) -> Any:
        return self.store.fetch_one(key, start_ms)

    def scan_fetch(self, key: Any, from_ms: int, to_ms: int) -> Any:
        return self.store.fetch(key, from_ms, to_ms)

    def scan_reverse_fetch(self, key: Any, from_ms: int, to_ms: int) -> Any:
        return self.store.backward_fetch(key, from_ms, to_ms)

    def scan_fetch_range(self, low: Any, high: Any, from_ms: int, to_ms: int) -> Any:
        return self.store.fetch_range(low, high, from_ms, to_ms)

    def scan_reverse_fetch_range(self, low: Any, high: Any, from_ms: int, to_ms: int) -> Any:
        return self.store.backward_fetch_range(low, high, from_ms, to_ms)

    def scan_fetch_all(self, from_ms: int, to_ms: int) -> Any:
        return self.store.fetch_all(from_ms, to_ms)

    def scan_reverse_fetch_all(self, from_ms: int, to_ms: int) -> Any:
        return self.store.backward_fetch_all(from_ms, to_ms)

    def scan_all(self) -> Any:
        return self.store.all()

    def scan_reverse_all(self) -> Any:
        return self.store.backward_all()

    def do_dropped_total(self) -> int:
        return int(self.store.stream_time.dropped_total)

    def do_retention_expire(self) -> None:
        self.task.end_batch()

    def do_flush_forward(self) -> list[Any]:
        return self.flushed(lambda row_key: [self.logged(row_key, None)[0][0], self.logged(row_key, None)[0][1]])

    def do_iter_has_next(self, name: str) -> bool:
        # Our iterators raise once their store is closed; the peers' window and session iterators say that they ended.
        try:
            return super().do_iter_has_next(name)
        except IteratorClosedError:
            return False

    def flushed(self, shown: Any) -> list[Any]:
        """(key, new, old) of what the batch changes: a row that it has put and deleted gives no change."""
        decode, sends_old = self.value_serde.deserialize, bool(self.config.get("send_old"))
        return [
            [
                shown(change.key),
                None if change.value is None else decode(change.value),
                None if old is None or not sends_old else decode(old),
            ]
            for change, old in self.task.end_batch()
            if change.value is not None or old is not None
        ]
