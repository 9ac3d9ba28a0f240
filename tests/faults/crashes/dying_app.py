"""Death between two steps of a batch. The app is as always; what kills it is put around its steps from outside."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
from spark_apps.loyalty import app as loyalty
from spark_apps.sink import batch_sink, task

from spark_apps.checkpoint import SparkCheckpoint
from spark_apps.engine.topic_rules import MapRecords
from spark_apps.hadoop_export import app as hadoop_export
from spark_apps.stream import ProcessBatch
from tests.faults.crashes.points import ANY_SLOT, Point, Victim

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class ArmedCrash:
    """A crash at `point` of batch `batch_id` or later. Travels to the workers."""

    point: Point
    victim: Victim
    batch_id: int
    slot: int

    def at(self, point: Point, batch_id: int, slot: int | None = None) -> None:
        """Dies if this is the place. Returns if it is another, or if the victim is and leaves this process alive."""
        here = slot is None or self.slot in (slot, ANY_SLOT)
        if here and point == self.point and batch_id >= self.batch_id:
            sys.stderr.write(f"dying: {point}, {self.victim}, batch {batch_id}, slot {slot}\n")
            sys.stderr.flush()
            kill(self.victim)


def kill(victim: Victim) -> None:
    """Kills the victim, as seen from the driver or from one of its workers."""
    here = psutil.Process()
    worker = "spark_apps.worker_daemon" in here.cmdline()
    jvm = _ancestor(here, "java") if worker else _java_child(here)
    driver = jvm.parent() if worker else here
    assert driver is not None
    if victim in (Victim.JVM, Victim.BOTH):
        jvm.kill()
    if victim in (Victim.DRIVER, Victim.BOTH):
        driver.kill()
    if victim == Victim.WORKER or (victim == Victim.BOTH and worker):
        os.kill(os.getpid(), signal.SIGKILL)


def _ancestor(process: psutil.Process, name: str) -> psutil.Process:
    return next(parent for parent in process.parents() if parent.name() == name)


def _java_child(process: psutil.Process) -> psutil.Process:
    return next(child for child in process.children() if child.name() == "java")


class DyingWriter(task.TaskWriter):
    """The sink's writer, which dies between two of its steps."""

    def __init__(self, crash: ArmedCrash, plan: task.SinkPlan, slot: int) -> None:
        self._crash = crash
        self._batch_id = plan.batch_id
        crash.at(Point.TASK_BEGUN, plan.batch_id, slot)
        super().__init__(plan, slot)
        self._at(Point.TRANSACTION_OPEN)

    def commit(self, rows: int) -> bool:
        if self._crash.point == Point.RECORDS_SENT:
            self._producer.flush(30)
        self._at(Point.RECORDS_SENT)
        skipped = super().commit(rows)
        self._at(Point.TRANSACTION_COMMITTED)
        return skipped

    def _until_done(self, step: Any) -> None:
        if step.__name__ == "commit_transaction" and self._crash.point == Point.MARKER_SENT:
            self._producer.flush(30)
            self._at(Point.MARKER_SENT)
        super()._until_done(step)

    def _at(self, point: Point) -> None:
        self._crash.at(point, self._batch_id, self._slot)


@dataclass(frozen=True)
class DyingTask:
    """Takes the place of the sink's `run_task`."""

    crash: ArmedCrash

    def __call__(
        self, batches: Iterator[pa.RecordBatch], *, records_of: MapRecords, plan: task.SinkPlan
    ) -> Iterator[pa.RecordBatch]:
        task.TaskWriter = partial(DyingWriter, self.crash)  # type: ignore[misc, assignment]
        return batch_sink.run_task(batches, records_of=records_of, plan=plan)


@dataclass(frozen=True)
class DyingGrouping:
    """Takes the place of the loyalty app's `group_rows`."""

    crash: ArmedCrash

    def __call__(self, batches: Iterator[pa.RecordBatch], **arguments: Any) -> Iterator[pa.RecordBatch]:
        for grouped in loyalty.group_rows(batches, **arguments):
            # The marks are written before the first group leaves.
            self.crash.at(Point.MARKS_WRITTEN, loyalty._batch_id())
            yield grouped


def arm(crash: ArmedCrash, checkpoint: Path) -> None:
    """Puts the crash where it belongs, before the app opens its stream."""
    if crash.point == Point.COMMITTED:
        threading.Thread(target=_die_when_committed, args=(crash, checkpoint), daemon=True).start()
    elif crash.point == Point.DEAD_LETTERS_WRITTEN:
        write = hadoop_export.Exporter._write_dead_letters

        def dying(self: hadoop_export.Exporter, poison: DataFrame, batch_id: int) -> None:
            write(self, poison, batch_id)
            crash.at(Point.DEAD_LETTERS_WRITTEN, batch_id)

        hadoop_export.Exporter._write_dead_letters = dying  # type: ignore[method-assign]
    elif crash.point == Point.MARKS_WRITTEN:
        loyalty.group_rows = DyingGrouping(crash)
    else:
        batch_sink.run_task = DyingTask(crash)


def _die_when_committed(crash: ArmedCrash, checkpoint: Path) -> None:
    while next_batch(checkpoint) <= crash.batch_id:
        time.sleep(0.002)
    crash.at(Point.COMMITTED, crash.batch_id)


def next_batch(checkpoint: Path) -> int:
    """The batch that a start begins with: the first that isn't committed."""
    last = SparkCheckpoint(checkpoint).last_committed_batch()
    return 0 if last is None else last + 1


def dying_process(crash: ArmedCrash, process: ProcessBatch) -> ProcessBatch:
    """`process`, with death before and behind it."""

    def processed(frame: DataFrame, batch_id: int) -> None:
        crash.at(Point.PLANNED, batch_id)
        process(frame, batch_id)
        crash.at(Point.WRITTEN, batch_id)

    return processed
