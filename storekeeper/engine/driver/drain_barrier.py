"""Stopping between two batches, so that no batch is cut off and run again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from storekeeper.engine.runtime.stream import ProcessBatch
from storekeeper.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class BatchRefusedError(Exception):
    """The app is stopping, so this batch was not begun. Ends the query; the next start runs the batch."""


class DrainBarrier:
    """Lets batches through until it is closed. Called by Spark's thread, closed by the main one."""

    def __init__(self, process: ProcessBatch) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._closed = False
        self._busy = False
        self._failure: StateError | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Runs the batch.

        Raises:
            BatchRefusedError: the barrier is closed.
        """
        with self._lock:
            if self._closed:
                raise BatchRefusedError("stopping")
            self._busy = True
        try:
            self._process(batch, batch_id)
        except StateError as error:
            self._failure = error
            raise
        finally:
            with self._lock:
                self._busy = False

    def close(self) -> None:
        """Refuses further batches; a running one continues."""
        with self._lock:
            self._closed = True

    @property
    def failure(self) -> StateError | None:
        """The `StateError` that ended the last batch; None if none did. Spark reports it only as text."""
        return self._failure

    @property
    def busy(self) -> bool:
        """Whether a batch is running."""
        with self._lock:
            return self._busy
