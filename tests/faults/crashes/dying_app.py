"""Death between two steps of a batch. The app is as always; what kills it is put around its steps from outside."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import psutil
import pyarrow as pa

from spark_apps.checkpoint import SparkCheckpoint
from spark_apps.engine import stages, stream, task_run
from spark_apps.engine.task_run import TaskRun
from spark_apps.engine.transaction import Slot, Transaction, WriterPlan
from spark_apps.hadoop_export import app as hadoop_export
from spark_apps.hadoop_export import letters
from spark_apps.stream import ProcessBatch
from tests.faults.crashes.points import ANY_SLOT, Point, Victim

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RunTask = Callable[..., Iterator[pa.RecordBatch]]


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


class DyingTransaction(Transaction):
    """A task's transaction, which dies between two of its steps."""

    def __init__(self, crash: ArmedCrash, plan: WriterPlan, slot: Slot, batch_id: int) -> None:
        self._crash = crash
        crash.at(Point.TASK_BEGUN, batch_id, slot.partition)
        super().__init__(plan, slot, batch_id)
        self._at(Point.TRANSACTION_OPEN)

    def commit(self, rows: int, progress: bytes) -> None:
        if self._crash.point == Point.RECORDS_SENT:
            self._producer.flush(30)
        self._at(Point.RECORDS_SENT)
        super().commit(rows, progress)
        self._at(Point.TRANSACTION_COMMITTED)

    def _until_done(self, step: Any) -> None:
        if step.__name__ == "commit_transaction" and self._crash.point == Point.MARKER_SENT:
            self._producer.flush(30)
            self._at(Point.MARKER_SENT)
        super()._until_done(step)

    def _at(self, point: Point) -> None:
        self._crash.at(point, self._batch_id, self._slot.partition)


class DyingRun(TaskRun):
    """A task, which dies when its local stores have the batch."""

    crash: ClassVar[ArmedCrash]

    def __call__(self, records: Any) -> Any:
        done = super().__call__(records)
        self.crash.at(Point.APPLIED, self.work.batch_id, self.partition)
        return done


@dataclass(frozen=True)
class DyingTask:
    """Takes the place of what Spark runs in a worker."""

    crash: ArmedCrash
    run: RunTask

    def __call__(self, batches: Iterator[pa.RecordBatch], **arguments: Any) -> Iterator[pa.RecordBatch]:
        DyingRun.crash = self.crash
        for module, name, replacement in (
            (task_run, "Transaction", partial(DyingTransaction, self.crash)),
            (letters, "Transaction", partial(DyingTransaction, self.crash)),
            (stages, "TaskRun", DyingRun),
        ):
            setattr(module, name, replacement)
        return self.run(batches, **arguments)


def arm(crash: ArmedCrash, checkpoint: Path) -> None:
    """Puts the crash where it belongs, before the app opens its stream."""
    if crash.point == Point.COMMITTED:
        threading.Thread(target=_die_when_committed, args=(crash, checkpoint), daemon=True).start()
    elif crash.point == Point.DEAD_LETTERS_WRITTEN:
        write = hadoop_export.Exporter._write_rows

        def dying(self: hadoop_export.Exporter, items: DataFrame, batch_id: int) -> None:
            crash.at(Point.DEAD_LETTERS_WRITTEN, batch_id)
            write(self, items, batch_id)

        hadoop_export.Exporter._write_rows = dying  # type: ignore[method-assign]
    else:
        for module, name in ((stream, "run_sources"), (stream, "run_gathered"), (letters, "_write_letters")):
            setattr(module, name, DyingTask(crash, getattr(module, name)))


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
