"""A store whose writes a test can look at, and whose disk a test can fill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from storekeeper.errors import DiskFullError
from storekeeper.stores.bytes_store import NO_METADATA, Entry
from storekeeper.stores.memory import MemoryStore


class RecordingStore(MemoryStore):
    """A store that keeps the writes that reached it, and can run out of space."""

    def __init__(self) -> None:
        super().__init__("below")
        self.writes: list[tuple[list[Entry], dict[bytes, bytes | None]]] = []
        self.full = False

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Records the write, or refuses it."""
        if self.full:
            raise DiskFullError("no space left (injected)")
        rows = list(entries)
        self.writes.append((rows, dict(metadata)))
        super().write(rows, metadata)
