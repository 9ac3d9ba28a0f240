"""A restore listener that remembers, and shortcuts to make replicas and batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from storekeeper.changelog.batch import PartitionBatch
from storekeeper.changelog.listener import RestoreEvent, RestoreProgress
from storekeeper.changelog.restore import LogState
from storekeeper.clock import ManualClock
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_storage import ReplicaStorage
from storekeeper.protocol.replica_states import ReplicaId
from tests.changelog.messages import Record

DAY_MS = 86_400_000


class RecordingListener:
    """Remembers (event, offset, records)."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, int]] = []

    def __call__(self, event: RestoreEvent, progress: RestoreProgress) -> None:
        self.events.append((event.name.lower(), progress.offset, progress.records))


def make_replica(
    storage: ReplicaStorage,
    clock: ManualClock,
    listener: RecordingListener | None = None,
    may_rebuild: Callable[[], bool] = lambda: True,
) -> Replica:
    return Replica(
        ReplicaId("rewards", 0),
        "t",
        storage=storage,
        clock=clock,
        listener=listener or RecordingListener(),
        may_rebuild=may_rebuild,
    )


def log_of(start: int, end: int, *, topic_id: str = "id-1", delete_retention_ms: int = DAY_MS) -> LogState:
    return LogState("t", topic_id, 0, start, end, delete_retention_ms)


def batch(records: Sequence[Record], next_offset: int | None = None, *, end: bool = False) -> PartitionBatch:
    following = next_offset if next_offset is not None else records[-1].at + 1
    return PartitionBatch("t", 0, records, following, end)
