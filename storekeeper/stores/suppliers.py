"""Store suppliers: what opens the backends of a task's stores, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from storekeeper.stores.bytes_store import BytesStore
from storekeeper.stores.memory import MemoryStore


class StoreSupplier(Protocol):
    """Opens the backend of a store."""

    def open(self, name: str) -> BytesStore:
        """The open backend; the same name finds the same rows again where the backend is persistent.

        Raises:
            InvalidNameError: the name can't name a store.
            StoreCorruptedError: the files are damaged.
        """
        ...


@dataclass(frozen=True, slots=True)
class MemorySupplier:
    """Sorted rows in the process's memory."""

    def open(self, name: str) -> BytesStore:
        """An empty store."""
        return MemoryStore(name)
