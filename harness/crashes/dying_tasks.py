"""Death between two steps of a task. The engine is as always; what kills is put around its steps from outside."""

from __future__ import annotations

import importlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.crashes.armed import Armed, Place
from harness.crashes.points import Point
from storekeeper.changelog import bounded_reader
from storekeeper.engine import local_store, source_records
from storekeeper.engine.local_store import LocalStore
from storekeeper.engine.task_run import TaskRun
from storekeeper.engine.transaction import Slot, Transaction, WriterPlan
from storekeeper.topology.task import Task

RunTask = Callable[..., Iterator[Any]]

_FLUSH_S = 30.0
_COMMITS_WITHIN_S = 0.006
_RESTORED_AT_ONCE = 10
"""Records: so a restore has many steps, and can be left in the middle."""
_CONSUMED_AT_ONCE = 1
"""Records: so a range of a few records is read in several parts, and each part's outputs are written."""


class _Task:
    """What this worker does at the moment."""

    armed: Armed
    place = Place()
    logs: dict[Path, int] = {}  # noqa: RUF012 - one worker runs one task at a time

    @classmethod
    def at(cls, point: Point) -> None:
        cls.armed.at(point, cls.place)


@dataclass(frozen=True)
class DyingTask:
    """Takes the place of what Spark runs in a worker, a function of a module. It travels by its name: by value, it
    would take along what can't be pickled.

    Attributes:
        module: the function's.
        name: the function's.
        app: the only one that is run so; empty if the task itself says it.
    """

    module: str
    name: str
    app: str = ""

    @classmethod
    def of(cls, run: RunTask, app: str) -> DyingTask:
        """That of a function."""
        return cls(run.__module__, run.__name__, app)

    def __call__(self, items: Iterator[Any], **arguments: Any) -> Iterator[Any]:
        """Runs the task in a process that may be killed at its points."""
        become_mortal(Armed.here())
        if self.app:
            _Task.place = Place(self.app)
        run: RunTask = getattr(importlib.import_module(self.module), self.name)
        return run(items, **arguments)


def become_mortal(armed: Armed) -> None:
    """Lets the tasks of this process die where a kill waits for them. It must be a worker."""
    mortal = hasattr(_Task, "armed")
    _Task.armed = armed
    if mortal:
        return
    for module, name, value in (
        (local_store, "_RESTORE_RECORDS", _RESTORED_AT_ONCE),
        (bounded_reader, "_PART_RECORDS", _CONSUMED_AT_ONCE),
    ):
        vars(module)[name]  # it goes by another name if this fails
        setattr(module, name, value)
    _wrap(source_records, "read_parts", _read)
    _wrap(TaskRun, "__call__", _run)
    _wrap(TaskRun, "_write", _write)
    _wrap(Transaction, "__init__", _open)
    _wrap(Transaction, "commit", _commit)
    _wrap(Transaction, "_until_done", _until_done)
    _wrap(LocalStore, "written", _written)
    _wrap(Task, "apply", _apply)
    _wrap(local_store, "restore", _restore)


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    inner = vars(owner)[name]

    def wrapped(*arguments: Any, **named: Any) -> Any:
        return around(inner, *arguments, **named)

    wrapped.__name__ = name
    setattr(owner, name, wrapped)


def _run(inner: Callable[..., Any], run: TaskRun, records: Any) -> Any:
    _Task.place = Place(run.work.app.app, run.partition, stateful=bool(run.sub.stores))
    try:
        return inner(run, records)
    finally:
        _Task.place = Place()


def _read(inner: Callable[..., Iterator[Any]], *where: Any) -> Iterator[Any]:
    *_, end = where
    for part in inner(*where):
        yield part
        if part[-1].offset() + 1 < end:
            _Task.at(Point.BETWEEN_READS)
    _Task.at(Point.RANGE_READ)


def _write(inner: Callable[..., None], run: TaskRun, outputs: Any, transaction: Transaction, forwarded: Any) -> None:
    inner(run, outputs, transaction, forwarded)
    if _Task.armed.waits_at(Point.PARTLY_WRITTEN, _Task.place):
        transaction._producer.flush(_FLUSH_S)
        _Task.at(Point.PARTLY_WRITTEN)


def _open(inner: Callable[..., None], own: Transaction, plan: WriterPlan, slot: Slot, *batch: Any) -> None:
    _Task.place = replace(_Task.place, app=plan.app, partition=slot.partition)
    _Task.at(Point.TASK_BEGUN)
    inner(own, plan, slot, *batch)
    _Task.at(Point.TRANSACTION_OPEN)


def _commit(inner: Callable[..., None], own: Transaction, *marker: Any) -> None:
    if _Task.armed.waits_at(Point.RECORDS_SENT, _Task.place):
        own._producer.flush(_FLUSH_S)
        _Task.at(Point.RECORDS_SENT)
    inner(own, *marker)
    _Task.at(Point.TRANSACTION_COMMITTED)


def _until_done(inner: Callable[..., None], own: Transaction, step: Any) -> None:
    if step.__name__ == "commit_transaction":
        if _Task.armed.waits_at(Point.MARKER_SENT, _Task.place):
            own._producer.flush(_FLUSH_S)
            _Task.at(Point.MARKER_SENT)
        if _Task.armed.waits_at(Point.IN_COMMIT, _Task.place):
            own._producer.flush(_FLUSH_S)
            with ThreadPoolExecutor(1) as pool:
                committing = pool.submit(inner, own, step)
                time.sleep(random.uniform(0, _COMMITS_WITHIN_S))
                _Task.at(Point.IN_COMMIT)
                return committing.result()
    return inner(own, step)


def _written(inner: Callable[..., Any], store: LocalStore, changes: int) -> Any:
    _Task.at(Point.APPLYING)
    if _Task.armed.waits_at(Point.APPLY_TORN, _Task.place):
        _Task.logs = _logs(store.backend.path)  # type: ignore[attr-defined]
    return inner(store, changes)


def _apply(inner: Callable[..., None], *arguments: Any, **named: Any) -> None:
    inner(*arguments, **named)
    if _Task.logs:
        _tear(_Task.logs)
        _Task.logs = {}
        _Task.at(Point.APPLY_TORN)
        # The kill may have been for another process, or was withdrawn; with a torn log nothing can go on.
        sys.stderr.write("dying: of a torn write\n")
        os.kill(os.getpid(), signal.SIGKILL)
    _Task.at(Point.APPLIED)


def _logs(store: Path) -> dict[Path, int]:
    return {file: file.stat().st_size for file in store.glob("*.log")}


def _tear(before: dict[Path, int]) -> None:
    """Leaves half of what was written to the log since: as if the machine had died in the middle of the write."""
    for file, size in before.items():
        written = file.stat().st_size - size
        os.truncate(file, size + written // 2)


def _restore(inner: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    _Task.at(Point.RESTORE_BEGUN)
    done = inner(*arguments, **named)
    _Task.at(Point.RESTORING)
    return done
