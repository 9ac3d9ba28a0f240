"""Death of an app between two steps of its driver, and of its tasks wherever the campaign says."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from harness.crashes.armed import Armed, Place
from harness.crashes.dying_tasks import DyingTask
from harness.crashes.points import Point
from storekeeper.engine import kafka_rows, stream
from storekeeper.engine.runtime.batch_query import ProcessBatch
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.table_sink import letters
from storekeeper.engine.table_sink.stream import TableWriter
from storekeeper.locations import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PAUSE_S = 0.002


def prepare(armed: Armed) -> None:
    """Makes the steps of all apps of this process mortal, before one of them opens its stream."""
    for module, name, app in (
        *((stream, "run_sources", ""), (stream, "run_gathered", "")),
        *((kafka_rows, "_rows", "hadoop_export"), (letters, "_write_letters", "")),
    ):
        setattr(module, name, DyingTask.of(getattr(module, name), app))
    write = TableWriter._write_rows

    def dying(self: TableWriter, items: DataFrame, batch_id: int) -> None:
        armed.at(Point.DEAD_LETTERS_WRITTEN, Place("hadoop_export"))
        write(self, items, batch_id)

    TableWriter._write_rows = dying  # type: ignore[method-assign]


class DyingDriver:
    """Puts the points of an app around its batches."""

    def __init__(self, armed: Armed, app: str, checkpoint: Location) -> None:
        self._armed = armed
        self._place = Place(app)
        self._checkpoint = BatchCheckpoint(checkpoint)
        threading.Thread(target=self._watch_commits, daemon=True).start()

    def around_batch(self, process: ProcessBatch) -> ProcessBatch:
        """`process`, with death before and behind it."""

        def processed(batch_id: int) -> None:
            self._armed.at(Point.PLANNED, self._place)
            process(batch_id)
            self._armed.at(Point.WRITTEN, self._place)

        return processed

    def _watch_commits(self) -> None:
        while True:
            if self._armed.waits_at(Point.COMMITTED, self._place):
                last = self._checkpoint.last_committed_batch()
                while self._checkpoint.last_committed_batch() == last:
                    time.sleep(_PAUSE_S)
                self._armed.at(Point.COMMITTED, self._place)
            time.sleep(0.1)
