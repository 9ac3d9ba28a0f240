"""Tasks that are killed at a step of their commit, in Spark's Python workers.

A worker imports this module with the topology that it runs. The first task that comes to an armed step kills its
process, as `kill -9` does.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from spark_apps.engine import local_store
from spark_apps.engine.local_store import LocalStore
from spark_apps.engine.transaction import Transaction
from spark_apps.settings import AppSettings
from state.topology import StreamsBuilder
from state.topology.task import Task
from tests.spark_apps.engine import topologies

_FOLDER: list[Path] = []


class Step(StrEnum):
    """Where a task dies."""

    BEFORE_COMMIT = "before_commit"
    IN_COMMIT = "in_commit"
    AFTER_COMMIT = "after_commit"
    IN_APPLY = "in_apply"
    AFTER_APPLY = "after_apply"
    RESTORING = "restoring"


def arm(run_dir: Path, step: Step) -> None:
    """Lets the next task that comes to a step die."""
    (run_dir / f"die-{step}").touch()


def armed(run_dir: Path) -> bool:
    """Whether no task has come to the armed step yet."""
    return any(run_dir.glob("die-*"))


def shuffled(streams: StreamsBuilder, settings: AppSettings) -> None:
    """The topology `shuffled`, whose tasks may die."""
    if TaskContext.get() is not None and not _FOLDER:
        _FOLDER.append(settings.run_dir)
        _become_mortal()
    topologies.shuffled(streams, settings)


def _die_at(step: Step) -> None:
    for folder in _FOLDER:
        try:
            (folder / f"die-{step}").unlink()
        except FileNotFoundError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)


def _dying(
    function: Callable[..., Any], before: Step | None = None, after: Step | None = None
) -> Callable[..., Any]:  # fmt: skip
    def dying(*args: Any, **kwargs: Any) -> Any:
        if before is not None:
            _die_at(before)
        result = function(*args, **kwargs)
        if after is not None:
            _die_at(after)
        return result

    return dying


def _dying_commit(self: Transaction, rows: int, progress: bytes) -> None:
    _die_at(Step.BEFORE_COMMIT)
    until_done = self._until_done

    def before_the_end(step: object) -> None:
        self._producer.flush(10)
        _die_at(Step.IN_COMMIT)
        until_done(step)

    self._until_done = before_the_end  # type: ignore[method-assign]
    _commit(self, rows, progress)
    _die_at(Step.AFTER_COMMIT)


_commit = Transaction.commit


def _become_mortal() -> None:
    """Lets the tasks of this process die. It is a worker: a test's own process stays as it is."""
    Transaction.commit = _dying_commit  # type: ignore[method-assign]
    Task.apply = _dying(Task.apply, after=Step.AFTER_APPLY)  # type: ignore[method-assign]
    LocalStore.written = _dying(LocalStore.written, before=Step.IN_APPLY)  # type: ignore[method-assign]
    vars(local_store)["restore"] = _dying(vars(local_store)["restore"], after=Step.RESTORING)
