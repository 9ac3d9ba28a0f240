"""Changelog cases: what a store of any kind writes to its log."""

from __future__ import annotations

from typing import Any, ClassVar

from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.key_value import KeyValueStore, KeyValueTransaction
from storekeeper.stores.session import SessionStore
from storekeeper.stores.window import WindowStore
from tests.conformance.adapters.key_value import KeyValueAdapter
from tests.conformance.adapters.session import SessionAdapter
from tests.conformance.adapters.window import WindowAdapter
from tests.conformance.backend import Backend

_FOR_EVER_MS = 1 << 62


class ChangelogAdapter(KeyValueAdapter):
    """A logged key-value store; window and session stores beside it log to the same changelog."""

    kinds: ClassVar[tuple[str, ...]] = ("changelog",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        self.outside: KeyValueStore[Any, Any] = self.store
        self.windows: WindowStore[Any, Any] | None = None
        self.sessions: SessionStore[Any, Any] | None = None

    def close(self) -> None:
        for store in (self.outside, self.windows, self.sessions):
            if store is not None:
                store.close()

    def beside(self, name: str) -> StoreBuilder:
        """How the stores beside the key-value store are built."""
        context = self.outside.context
        return StoreBuilder(name, self.backend.supplier).with_logging(self.log).with_context(context)

    def logged(self, key: bytes, value: bytes | None) -> list[Any]:
        if self.windows is not None:
            return WindowAdapter.logged(self, key, value)  # type: ignore[arg-type]
        if self.sessions is not None:
            return SessionAdapter.logged(self, key, value)  # type: ignore[arg-type]
        return super().logged(key, value)

    def do_put_at(self, key: Any, value: Any, timestamp_ms: int) -> None:
        self.outside.context.timestamp_ms = timestamp_ms
        self.store.put(key, value)

    def do_changelog_ts(self) -> list[Any]:
        return [[*self.logged(record.key, record.value), record.timestamp_ms] for record in self.log.records]

    def do_input(self, topic: str, partition: int, offset: int) -> None:
        self.outside.context.move_to(topic, partition, offset)

    def do_position(self) -> Any:
        return self.outside.position

    def do_changelog_position(self) -> Any:
        return self.outside.position

    def do_window_put(self, key: Any, value: Any, start_ms: int) -> None:
        if self.windows is None:
            self.windows = self.beside("windows").window(
                self.key_serde,
                self.value_serde,
                window_size_ms=self.config.get("window_size", 1),
                retention_ms=self.config.get("retention", _FOR_EVER_MS),
                retain_duplicates=self.config.get("retain_duplicates", False),
            )
        self.windows.put(key, value, start_ms)

    def session_store(self) -> SessionStore[Any, Any]:
        """The session store."""
        if self.sessions is None:
            retention_ms = self.config.get("retention", _FOR_EVER_MS)
            self.sessions = self.beside("sessions").session(self.key_serde, self.value_serde, retention_ms=retention_ms)
        return self.sessions

    def do_session_put(self, key: Any, start_ms: int, end_ms: int, value: Any) -> None:
        self.session_store().put(key, start_ms, end_ms, value)

    def do_session_remove(self, key: Any, start_ms: int, end_ms: int) -> None:
        self.session_store().remove(key, start_ms, end_ms)

    def do_tx_begin(self) -> None:
        self.store = self.outside.transaction()

    def do_tx_commit(self) -> None:
        assert isinstance(self.store, KeyValueTransaction)
        self.store.commit()
        self.store = self.outside

    def do_tx_abort(self) -> None:
        assert isinstance(self.store, KeyValueTransaction)
        self.store.abort()
        self.store = self.outside
