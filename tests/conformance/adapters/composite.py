"""Cases of scatter-gather reads over several partitions: what a node does with its replicas of them.

A node answers no question about the number of all rows, so cases that ask it are not for us.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from storekeeper.changelog.batch import PartitionBatch
from storekeeper.changelog.listener import logging_listener
from storekeeper.clock import ManualClock
from storekeeper.node.query.reads.cooperative_scheduler import finished
from storekeeper.node.query.reads.freshness_gate import Asked
from storekeeper.node.query.reads.gather import Gathered, complete
from storekeeper.node.query.reads.pages import KeyRange, PageLimits, Scan, read_page
from storekeeper.node.replicas.replica import Replica
from storekeeper.protocol.freshness import FreshnessRequirement
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, Entry
from storekeeper.stores.iterators import OpenIterators, RowIterator
from storekeeper.stores.key_value import KeyValueStore
from storekeeper.stores.layers import StoreLayers
from storekeeper.stores.session import SessionStore
from storekeeper.stores.window import WindowStore
from storekeeper.topology.store import StoreKind
from storekeeper.topology.topology_store import TopologyStore
from tests.changelog.messages import Record
from tests.conformance.adapter import Adapter, UnsupportedCaseError
from tests.conformance.adapters.key_value import KeyValueAdapter
from tests.conformance.adapters.restore import BackendStorage, log_state
from tests.conformance.adapters.session import SessionAdapter
from tests.conformance.adapters.window import WindowAdapter
from tests.conformance.backend import Backend

_KINDS: dict[str, type[KeyValueAdapter]] = {"kv": KeyValueAdapter, "window": WindowAdapter, "session": SessionAdapter}
_MOST = 1 << 62
_COUNT = "a node doesn't count the rows of a store"


class Partition:
    """A task's store, and a node's replica that follows its changelog."""

    def __init__(self, adapter: KeyValueAdapter, number: int, backend: Backend) -> None:
        self.adapter = adapter
        clock = ManualClock(now_ms=1)
        self.replica = Replica(
            ReplicaId("replica", number), "t", storage=BackendStorage(backend), clock=clock,
            listener=logging_listener(clock),
        )  # fmt: skip
        self.replica.open(log_state(0, 0))
        self.replica.apply(PartitionBatch("t", number, [], 0, end_reached=True))

    def follow(self) -> None:
        """Applies the records that the replica doesn't have."""
        start, log = self.replica.offset or 0, self.adapter.log
        records = [Record(at, log[at].key, log[at].value) for at in range(start, len(log))]
        self.replica.apply(PartitionBatch("t", self.replica.replica_id.partition, records, len(log), end_reached=True))


class ReplicaRows:
    """The rows of several replicas, merged as for the page of an answer. A `BytesStore` that only reads."""

    name = "replicas"
    is_open = True

    def __init__(self, adapter: CompositeAdapter) -> None:
        self._adapter = adapter
        self.open_iterators = OpenIterators()

    def get(self, key: bytes) -> bytes | None:
        found = (replica.get(key) for replica in self._adapter.available())
        return next((row.value for row in found if row is not None), None)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        scan = Scan("replica", KeyRange(start, stop), reverse)
        page = finished(read_page(self._adapter.available(), scan, PageLimits(_MOST, _MOST, _MOST)))
        return RowIterator(iter(page.rows), self.open_iterators)

    def metadata(self, key: bytes) -> bytes | None:
        return None

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        raise UnsupportedCaseError("a node only reads")

    def approximate_num_entries(self) -> int:
        raise UnsupportedCaseError(_COUNT)

    def close(self) -> None:
        """Nothing is open."""


class CompositeAdapter(Adapter):
    """Tasks' stores of several partitions, and one view of their replicas, which the inner kind's adapter reads."""

    kinds: ClassVar[tuple[str, ...]] = ("composite",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        self.held = True
        kind = _KINDS[config.get("inner", "kv")]
        with_retention = {"retention": 1 << 62, **config}
        self.partitions: list[Partition] = []
        for number in range(config["shards"]):
            self.partitions.append(Partition(kind(with_retention, backend.part(str(number))), number, backend))
        self.reader = kind(with_retention, backend.part("all"))
        self.reader.task.close()
        self.reader.task = _View(_reader_of(self.reader.spec(), ReplicaRows(self)))  # type: ignore[assignment]

    def available(self) -> list[Replica]:
        """The partitions' replicas. While nobody holds one, it is missing in the answer of all nodes."""
        missing = () if self.held else tuple(range(len(self.partitions)))
        complete("replica", Gathered((), missing, ()), Asked(FreshnessRequirement(), arrived_s=0, deadline_s=0))
        return [partition.replica for partition in self.partitions]

    def close(self) -> None:
        for partition in self.partitions:
            partition.replica.close()
            partition.adapter.close()

    def run(self, op: list[Any]) -> Any:
        own = hasattr(self, f"do_{op[0]}") and not hasattr(Adapter, f"do_{op[0]}")
        return super().run(op) if own else self.reader.run(op)

    def put(self, number: int, *row: Any) -> None:
        """Puts a row into a partition, and lets its replica follow."""
        adapter: Any = self.partitions[number].adapter
        adapter.do_put(*row)
        self.partitions[number].follow()

    def do_shard_put(self, number: int, key: Any, value: Any) -> None:
        self.put(number, key, value)

    def do_shard_window_put(self, number: int, key: Any, value: Any, start_ms: int) -> None:
        self.put(number, key, value, start_ms)

    def do_shard_session_put(self, number: int, key: Any, start_ms: int, end_ms: int, value: Any) -> None:
        self.put(number, key, start_ms, end_ms, value)

    def do_shard_fake_count(self, number: int, entries: int) -> None:
        del number, entries
        raise UnsupportedCaseError(_COUNT)

    def do_rebalancing(self, rebalancing: bool) -> None:
        self.held = not rebalancing


@dataclass(frozen=True)
class _View:
    """What stands for the reader's task."""

    store: Any

    def close(self) -> None:
        """Nothing is open."""


def _reader_of(spec: TopologyStore, rows: Any) -> Any:
    """A store of some kind over rows that have no layers below."""
    layers, serdes = StoreLayers(top=rows, restore_target=rows), (spec.key_serde, spec.value_serde)
    if spec.kind is StoreKind.WINDOW:
        return WindowStore(
            layers, *serdes, window_size_ms=spec.window_size_ms, retention_ms=spec.retention_ms,
            retain_duplicates=spec.retain_duplicates,
        )  # fmt: skip
    if spec.kind is StoreKind.SESSION:
        return SessionStore(layers, *serdes, retention_ms=spec.retention_ms)
    return KeyValueStore(layers, *serdes)
