"""Key-value cases."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar

from storekeeper.errors import DiskFullError
from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.caching import CacheBudget
from storekeeper.stores.changelog_writer import InMemoryChangelog
from storekeeper.stores.key_value import KeyValueStore
from tests.conformance.adapter import SERDES, Adapter, UnsupportedCaseError
from tests.conformance.backend import Backend


class KeyValueAdapter(Adapter):
    """A logged key-value store. A backend that forgets is restored from its changelog when it is reopened."""

    kinds: ClassVar[tuple[str, ...]] = ("kv",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        self.log = InMemoryChangelog()
        self.key_serde = SERDES[config.get("key_type", "utf8")]
        self.value_serde = SERDES[config.get("value_type", "utf8")]
        self.store: KeyValueStore[Any, Any] = self.open()

    def builder(self) -> StoreBuilder:
        """How the store is built."""
        builder = StoreBuilder("conformance", self.backend.supplier).with_logging(self.log)
        if self.config.get("cache"):
            builder = builder.with_caching(CacheBudget(), send_old_values=bool(self.config.get("send_old")))
        return builder

    def open(self) -> Any:
        """Opens the store."""
        return self.builder().key_value(self.key_serde, self.value_serde)

    def close(self) -> None:
        self.store.close()

    def encoded(self, entries: list[list[Any]]) -> list[tuple[bytes, bytes | None]]:
        """Rows as they stand in a changelog."""
        encode, encode_key = self.value_serde.serialize, self.key_serde.serialize
        return [(encode_key(key), None if value is None else encode(value)) for key, value in entries]

    def logged(self, key: bytes, value: bytes | None) -> list[Any]:
        """A changelog record as case files show it."""
        return [self.key_serde.deserialize(key), None if value is None else self.value_serde.deserialize(value)]

    def do_put(self, key: Any, value: Any) -> None:
        self.store.put(key, value)

    def do_get(self, key: Any) -> Any:
        return self.store.get(key)

    def do_delete(self, key: Any) -> Any:
        return self.store.delete(key)

    def do_put_if_absent(self, key: Any, value: Any) -> Any:
        return self.store.put_if_absent(key, value)

    def do_put_all(self, entries: list[list[Any]]) -> None:
        self.store.put_all((key, value) for key, value in entries)

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

    def do_count(self) -> int:
        with self.store.all() as rows:
            return sum(1 for _ in rows)

    def do_approximate_num_entries(self) -> int:
        return self.store.approximate_num_entries()

    def do_flush(self) -> None:
        self.store.flush()

    def do_close(self) -> None:
        self.store.close()

    def do_reopen(self) -> None:
        self.store.close()
        self.reopened()

    def reopened(self) -> None:
        """Opens again, and restores what the backend doesn't keep."""
        self.store = self.open()
        if not self.backend.persistent:
            self.store.restore_batch([(record.key, record.value) for record in self.log.records])

    def do_restore(self, entries: list[list[Any]]) -> None:
        self.store.restore_batch(self.encoded(entries))

    def do_changelog(self) -> list[Any]:
        return [self.logged(record.key, record.value) for record in self.log.records]

    def do_fault(self, name: str) -> None:
        """A crash forgets what was not flushed; a full disk refuses the next write."""
        if name in {"crash", "kill", "kill_process", "process_kill", "kill9"}:
            self.store.layers.backend.close()
            self.reopened()
        elif name in {"disk_full", "enospc", "no_space", "io_error", "write_error"}:
            _refuse_one_write(self.store.layers.backend)
        else:
            msg = f"fault {name}"
            raise UnsupportedCaseError(msg)


def _refuse_one_write(backend: Any) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        with suppress(AttributeError):
            del backend.write
        raise DiskFullError("no space left (injected)")

    backend.write = refuse
