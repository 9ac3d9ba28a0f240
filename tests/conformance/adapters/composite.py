"""Cases of scatter-gather reads over several partitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from storekeeper.errors import StoreUnavailableError
from storekeeper.stores.composite import composite
from tests.conformance.adapter import Adapter
from tests.conformance.adapters.key_value import KeyValueAdapter
from tests.conformance.adapters.session import SessionAdapter
from tests.conformance.adapters.window import WindowAdapter
from tests.conformance.backend import Backend

_KINDS: dict[str, type[KeyValueAdapter]] = {"kv": KeyValueAdapter, "window": WindowAdapter, "session": SessionAdapter}


class CompositeAdapter(Adapter):
    """Stores of several partitions behind one read-only view, which the inner kind's adapter reads."""

    kinds: ClassVar[tuple[str, ...]] = ("composite",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        self.rebalancing = False
        adapter = _KINDS[config.get("inner", "kv")]
        with_retention = {"retention": 1 << 62, **config}
        self.shards = [adapter(with_retention, _place(backend, number)) for number in range(config["shards"])]
        self.reader = adapter(with_retention, _place(backend, len(self.shards)))
        self.reader.store.close()
        self.reader.store = composite(self.available, self.reader.key_serde)

    def available(self) -> list[Any]:
        """The partitions' stores, unless they are being moved."""
        if self.rebalancing:
            raise StoreUnavailableError("the partitions are moving; ask again later")
        return [shard.store for shard in self.shards]

    def close(self) -> None:
        for shard in self.shards:
            shard.close()

    def run(self, op: list[Any]) -> Any:
        own = hasattr(self, f"do_{op[0]}") and not hasattr(Adapter, f"do_{op[0]}")
        return super().run(op) if own else self.reader.run(op)

    def do_shard_put(self, number: int, key: Any, value: Any) -> None:
        self.shards[number].store.put(key, value)

    def do_shard_window_put(self, number: int, key: Any, value: Any, start_ms: int) -> None:
        self.shards[number].store.put(key, value, start_ms)  # type: ignore[call-arg]

    def do_shard_session_put(self, number: int, key: Any, start_ms: int, end_ms: int, value: Any) -> None:
        self.shards[number].store.put(key, start_ms, end_ms, value)  # type: ignore[call-arg]

    def do_shard_fake_count(self, number: int, entries: int) -> None:
        self.shards[number].store.approximate_num_entries = lambda: entries  # type: ignore[method-assign]

    def do_shard_close(self, number: int) -> None:
        self.shards[number].store.close()

    def do_rebalancing(self, rebalancing: bool) -> None:
        self.rebalancing = rebalancing


def _place(backend: Backend, number: int) -> Backend:
    """A place of its own for one partition of the same backend."""
    supplier: Any = backend.supplier
    if backend.kind == "rocksdb":
        supplier = replace(supplier, directory=supplier.directory / str(number))
    elif backend.kind == "redis":
        supplier = replace(supplier, prefix=f"{supplier.prefix}-{number}")
    return replace(backend, supplier=supplier)
