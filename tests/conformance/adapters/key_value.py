"""Key-value cases."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar

from storekeeper.errors import DiskFullError
from storekeeper.serdes.serde import Serde
from storekeeper.topology.records import StoreChange
from storekeeper.topology.topology_store import TopologyStore
from tests.conformance.adapter import SERDES, Adapter, UnsupportedCaseError
from tests.conformance.backend import Backend
from tests.stores.task_store import TaskStore, store_spec


class KeyValueAdapter(Adapter):
    """The key-value store of a task. Each write is a batch of its own; with a cache, a flush ends the batch."""

    kinds: ClassVar[tuple[str, ...]] = ("kv",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        self.log: list[StoreChange] = []
        self.key_serde: Serde[Any] = SERDES[config.get("key_type", "utf8")]
        self.value_serde: Serde[Any] = SERDES[config.get("value_type", "utf8")]
        self.in_batch = bool(config.get("cache"))
        self.task = TaskStore(self.spec(), backend, self.log)

    def spec(self) -> TopologyStore:
        """The store."""
        return store_spec(keys=self.key_serde, values=self.value_serde)

    @property
    def store(self) -> Any:
        """What a processor gets."""
        return self.task.store

    def close(self) -> None:
        self.task.close()

    def wrote(self) -> None:
        """Ends the batch of a write. A task whose backend fails is discarded; its successor reads the changelog."""
        if self.in_batch:
            return
        try:
            self.task.end_batch()
        except DiskFullError:
            self.task.reopen()
            raise

    def encoded(self, entries: list[list[Any]]) -> list[tuple[bytes, bytes | None]]:
        """Rows as they stand in a changelog."""
        encode, encode_key = self.value_serde.serialize, self.key_serde.serialize
        return [(encode_key(key), None if value is None else encode(value)) for key, value in entries]

    def logged(self, key: bytes, value: bytes | None) -> list[Any]:
        """A changelog record as case files show it."""
        return [self.key_serde.deserialize(key), None if value is None else self.value_serde.deserialize(value)]

    def do_put(self, key: Any, value: Any) -> None:
        self.store.put(key, value)
        self.wrote()

    def do_get(self, key: Any) -> Any:
        return self.store.get(key)

    def do_delete(self, key: Any) -> Any:
        deleted = self.store.delete(key)
        self.wrote()
        return deleted

    def do_put_if_absent(self, key: Any, value: Any) -> Any:
        there = self.store.put_if_absent(key, value)
        self.wrote()
        return there

    def do_put_all(self, entries: list[list[Any]]) -> None:
        self.store.put_all((key, value) for key, value in entries)
        self.wrote()

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
        return int(self.store.approximate_num_entries())

    def do_flush(self) -> None:
        self.task.end_batch()

    def do_close(self) -> None:
        if self.store.is_open:
            self.task.end_batch()
        self.task.close()

    def do_reopen(self) -> None:
        self.do_close()
        self.task.reopen()

    def do_restore(self, entries: list[list[Any]]) -> None:
        self.task.restore(self.encoded(entries))

    def do_changelog(self) -> list[Any]:
        return [self.logged(change.key, change.value) for change in self.log]

    def do_fault(self, name: str) -> None:
        """A crash forgets the batch; a full disk refuses the next write of the backend."""
        if name in {"crash", "kill", "kill_process", "process_kill", "kill9"}:
            self.task.crash()
        elif name in {"disk_full", "enospc", "no_space", "io_error", "write_error"}:
            _refuse_one_write(self.task.backend)
        else:
            msg = f"unknown fault {name}"
            raise UnsupportedCaseError(msg)


def _refuse_one_write(backend: Any) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        with suppress(AttributeError):
            del backend.write
        raise DiskFullError("no space left (injected)")

    backend.write = refuse
