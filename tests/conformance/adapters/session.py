"""Session cases."""

from __future__ import annotations

from typing import Any, ClassVar

from storekeeper.serdes.keys.sessions import decode_session_row_key, session_row_key
from storekeeper.topology.store import StoreKind
from storekeeper.topology.topology_store import TopologyStore
from tests.conformance.adapters.window import WindowAdapter
from tests.stores.task_store import store_spec


class SessionAdapter(WindowAdapter):
    """A logged session store."""

    kinds: ClassVar[tuple[str, ...]] = ("session",)

    def spec(self) -> TopologyStore:
        return store_spec(
            StoreKind.SESSION, keys=self.key_serde, values=self.value_serde, retention_ms=self.config["retention"]
        )

    def item(self, row: Any) -> Any:
        session, value = row
        return [*session, value]

    def encoded(self, entries: list[list[Any]]) -> list[tuple[bytes, bytes | None]]:
        return [
            (
                session_row_key(self.key_serde.serialize(key), start_ms, end_ms),
                None if value is None else self.value_serde.serialize(value),
            )
            for (key, start_ms, end_ms), value in entries
        ]

    def logged(self, key: bytes, value: bytes | None) -> list[Any]:
        plain_key, start_ms, end_ms = decode_session_row_key(key)
        shown = None if value is None else self.value_serde.deserialize(value)
        return [[self.key_serde.deserialize(plain_key), start_ms, end_ms], shown]

    def do_put(self, key: Any, start_ms: int, end_ms: int, value: Any) -> None:  # type: ignore[override]
        self.store.put(key, start_ms, end_ms, value)
        self.wrote()

    def do_remove(self, key: Any, start_ms: int, end_ms: int) -> None:
        self.store.remove(key, start_ms, end_ms)
        self.wrote()

    def do_fetch_session(self, key: Any, start_ms: int, end_ms: int) -> Any:
        return self.store.fetch_session(key, start_ms, end_ms)

    def scan_find_sessions(self, key: Any, earliest_end_ms: int, latest_start_ms: int) -> Any:
        return self.store.find_sessions(key, earliest_end_ms, latest_start_ms)

    def scan_reverse_find_sessions(self, key: Any, earliest_end_ms: int, latest_start_ms: int) -> Any:
        return self.store.backward_find_sessions(key, earliest_end_ms, latest_start_ms)

    def scan_find_sessions_range(self, low: Any, high: Any, earliest_end_ms: int, latest_start_ms: int) -> Any:
        return self.store.find_sessions_range(low, high, earliest_end_ms, latest_start_ms)

    def scan_reverse_find_sessions_range(self, low: Any, high: Any, earliest_end_ms: int, latest_start_ms: int) -> Any:
        return self.store.backward_find_sessions_range(low, high, earliest_end_ms, latest_start_ms)

    def scan_find_sessions_ended(self, from_ms: int, to_ms: int) -> Any:
        return self.store.find_sessions_ended(from_ms, to_ms)

    def scan_fetch(self, key: Any) -> Any:  # type: ignore[override]
        return self.store.fetch(key)

    def scan_reverse_fetch(self, key: Any) -> Any:  # type: ignore[override]
        return self.store.backward_fetch(key)

    def scan_fetch_key_range(self, low: Any, high: Any) -> Any:
        return self.store.fetch_range(low, high)

    def scan_reverse_fetch_key_range(self, low: Any, high: Any) -> Any:
        return self.store.backward_fetch_range(low, high)

    def scan_all(self) -> Any:
        return self.store.fetch_range(None, None)

    def scan_reverse_all(self) -> Any:
        return self.store.backward_fetch_range(None, None)

    def do_flush_forward(self) -> list[Any]:
        return self.flushed(lambda row_key: self.logged(row_key, None)[0])
