"""A storage in memory that keeps its store."""

from __future__ import annotations

from storekeeper.node.replicas.replica_storage import MemoryStorage
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.stores.bytes_store import BytesStore


class KeepingStorage(MemoryStorage):
    """Opens the same store again, as a disk would."""

    def __init__(self, replica: ReplicaId) -> None:
        self._kept = super().open(replica)
        self._kept.close = lambda: None  # type: ignore[method-assign]

    def open(self, replica: ReplicaId) -> BytesStore:
        return self._kept
