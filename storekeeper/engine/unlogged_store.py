"""A task's store without a changelog. Nothing can restore it, so it has either the rows of all batches or none.

A batch's rows are written after its transaction is committed. If the task dies in between, its next attempt writes
nothing, and the rows would lack that batch. So the store's metadata name the last batch that was written to it. If the
task has committed another one since, the store begins empty, as it does on another machine.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from storekeeper.engine.store_backends import TaskBackend, emptied, opened, put_aside
from storekeeper.errors import StoreCorruptedError
from storekeeper.stores.bytes_store import is_empty

_BATCH = b"last-batch"

_log = structlog.get_logger(__name__)


class UnloggedStore:
    """One store of one task, open. Not thread-safe.

    Attributes:
        backend: its rows.
    """

    def __init__(self, name: str, holder: TaskBackend) -> None:
        self._name, self._holder = name, holder
        self.backend = opened(holder, name)

    def catch_up(self, committed: bytes | None) -> None:
        """Empties the store if it lacks a batch.

        Args:
            committed: names the last batch that the task has committed; None before its first.
        """
        try:
            found = self.backend.metadata(_BATCH)
        except StoreCorruptedError as error:
            self._holder.close(self.backend)
            put_aside(self._holder, self._name, error)
            self.backend, found = opened(self._holder, self._name), None
        if found == committed or (found is None and is_empty(self.backend)):
            return
        _log.warning("unlogged_store_emptied", store=self._name, why="a batch was committed and not written to it")
        self.backend = emptied(self._holder, self.backend, self._name)

    def written(self, batch: bytes) -> Mapping[bytes, bytes | None]:
        """The metadata to write with the rows of a batch."""
        return {_BATCH: batch}

    def close(self) -> None:
        """Closes the store."""
        self._holder.close(self.backend)
