"""Cases of a store whose values change their format: from plain to timestamped."""

from __future__ import annotations

from typing import Any, ClassVar

from storekeeper.serdes.serde import Utf8Serde
from storekeeper.serdes.timestamped import UNKNOWN_TIMESTAMP_MS, ValueAndTimestamp
from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.bytes_store import BytesStore
from storekeeper.stores.memory import MemoryStore
from storekeeper.stores.suppliers import StoreSupplier
from storekeeper.stores.upgrading import UpgradingStore
from tests.conformance.adapter import Adapter
from tests.conformance.backend import Backend


class MigrationAdapter(Adapter):
    """A plain store that is opened as a timestamped one."""

    kinds: ClassVar[tuple[str, ...]] = ("migration",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        supplier = backend.supplier if backend.persistent else _Remembered()
        self.builder = StoreBuilder("conformance", supplier).with_metrics_disabled()
        self.store: Any = self.builder.key_value(Utf8Serde(), Utf8Serde())
        self.upgraded = False

    def close(self) -> None:
        self.store.close()

    def do_old_put(self, key: str, value: str) -> None:
        self.store.put(key, value)

    def do_open_new_format(self) -> None:
        self.upgraded = True
        self.do_reopen()

    def do_reopen(self) -> None:
        self.store.close()
        build = self.builder.upgraded_key_value if self.upgraded else self.builder.key_value
        self.store = build(Utf8Serde(), Utf8Serde())

    def do_mode(self) -> str:
        return "upgrade" if isinstance(self.store.layers.backend, UpgradingStore) else "regular"

    def do_physical_format(self) -> dict[str, str]:
        backend = self.store.layers.backend
        formats: dict[str, str] = {}
        if isinstance(backend, UpgradingStore):
            with backend.old.scan(None, None) as rows:
                formats.update((key.decode(), "old") for key, _ in rows)
            backend = backend.inner
        with backend.scan(None, None) as rows:
            formats.update((key.decode(), "new") for key, _ in rows)
        return formats

    def do_put(self, key: str, value: Any) -> None:
        if value is None:
            self.store.put(key, None)
            return
        plain, timestamp_ms = value if isinstance(value, list) else (value, UNKNOWN_TIMESTAMP_MS)
        self.store.put(key, ValueAndTimestamp(plain, timestamp_ms))

    def do_put_if_absent(self, key: str, value: list[Any]) -> Any:
        return self.store.put_if_absent(key, ValueAndTimestamp(*value))

    def do_get(self, key: str) -> Any:
        return self.store.get(key)

    def do_delete(self, key: str) -> Any:
        return self.store.delete(key)

    def do_count(self) -> int:
        with self.store.all() as rows:
            return sum(1 for _ in rows)

    def do_approximate_num_entries(self) -> int:
        return int(self.store.approximate_num_entries())

    def scan_range(self, low: Any, high: Any) -> Any:
        return self.store.range(low, high)

    def scan_reverse_range(self, low: Any, high: Any) -> Any:
        return self.store.reverse_range(low, high)

    def scan_all(self) -> Any:
        return self.store.all()

    def scan_reverse_all(self) -> Any:
        return self.store.reverse_all()

    def scan_prefix_scan(self, prefix: Any) -> Any:
        return self.store.prefix_scan(prefix)

    def do_flush(self) -> None:
        self.store.flush()

    def do_close(self) -> None:
        self.store.close()


class _Remembered(StoreSupplier):
    """Memory stores whose rows are still there when they are opened again, as a case about formats needs."""

    def __init__(self) -> None:
        self.stores: dict[str, BytesStore] = {}

    def open(self, name: str) -> BytesStore:
        last, store = self.stores.get(name), MemoryStore(name)
        if last is not None:
            store.write(last.kept)  # type: ignore[attr-defined]
        self.stores[name] = _remember(store)
        return store


def _remember(store: MemoryStore) -> MemoryStore:
    close = store.close

    def closing() -> None:
        if store.is_open:
            with store.scan(None, None) as rows:
                store.kept = list(rows)  # type: ignore[attr-defined]
        close()

    store.close = closing  # type: ignore[method-assign]
    return store
