"""The batches of an app, one after the other: planned, run, and finished.

A batch's plan is in the checkpoint before it runs. After a crash it runs again with the same offsets.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self
from uuid import uuid4

import structlog
from pyspark import InheritableThread, SparkContext

from storekeeper.changelog.position import Position
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.progress import BatchReport

ProcessBatch = Callable[[int], None]
"""Runs one planned batch. It must be idempotent: after a crash it gets the same batch again."""

_REPORTS = 20
_KEPT_BATCHES = 100
_LEAST_PAUSE_S = 0.01
_CANCEL_AGAIN_S = 0.2

_log = structlog.get_logger(__name__)


def never() -> bool:
    """No batch runs without records."""
    return False


class BatchRefusedError(Exception):
    """This batch is not to begin. Ends the query without a failure; the next start runs the batch."""


class Plans(Protocol):
    """What plans batches."""

    def first(self) -> Position:
        """Where the first one begins."""

    def next(self, position: Position) -> tuple[Position, Position]:
        """Where one begins and ends that reads on at a position; the end is that position if nothing waits. The start
        has each partition of the end: where a new one begins, only the plan knows.
        """


class _Reached(NamedTuple):
    """The next batch: its number, where it reads on, where it ends if it is planned, and the time of the last plan."""

    batch_id: int
    position: Position
    end: Position | None
    planned_ms: int


@dataclass
class BatchQuery:
    """Runs the batches of one app in a thread of its own. Any thread may call its methods.

    Attributes:
        spark: whose jobs they are.
        name: the app's.
        plans: what plans them.
        process: what runs them.
        checkpoint: where the progress is.
        interval_s: the shortest time from the beginning of a batch to that of the next.
        due: whether a batch is to run though no records wait. It is asked where none do.
        reports: of the last finished batches, oldest first.
        failure: what ended the query; None if nothing has.
        has_data: whether a batch runs, or is planned, or the last one had records.
    """

    spark: SparkContext
    name: str
    plans: Plans
    process: ProcessBatch
    checkpoint: BatchCheckpoint
    interval_s: float
    due: Callable[[], bool] = never
    reports: deque[BatchReport] = field(default_factory=lambda: deque(maxlen=_REPORTS))
    failure: BaseException | None = None
    has_data: bool = False
    _idle: int = 0

    def __post_init__(self) -> None:
        self._group = f"{self.name}-{uuid4()}"
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._thread = InheritableThread(target=self._run, name=f"batches of {self.name}", daemon=True)

    def start(self) -> Self:
        """Begins; the query gets its id at its very first start."""
        self.checkpoint.begin()
        self._thread.start()
        return self

    @property
    def is_active(self) -> bool:
        """Whether it runs batches, or waits for records."""
        return self._thread.is_alive()

    def drain(self, timeout_s: float) -> bool:
        """Begins no further batch, and waits for the running one; whether it has ended in time."""
        self._stopping.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """The same, and cuts the running batch off."""
        self._stopping.set()
        while self._thread.is_alive():
            with suppress(Exception):  # py4j fails in many ways once the JVM is gone
                self.spark.cancelJobGroup(self._group)
            self._thread.join(_CANCEL_AGAIN_S)  # the batch may begin one more job

    def settle(self, timeout_s: float) -> None:
        """Waits until nothing waits any more.

        Raises:
            BaseException: what ended the query.
            TimeoutError: it takes longer, or the query was stopped before.
        """
        with self._changed:
            # The look that is under way may have begun before.
            wanted = self._idle + 2
            self._changed.wait_for(lambda: self._stopping.is_set() or self._idle >= wanted, timeout_s)
            settled = self._idle >= wanted
        if self.failure is not None:
            raise self.failure
        if not settled:
            raise TimeoutError(f"batches of {self.name} still have records")

    def _run(self) -> None:
        try:
            self.spark.setJobGroup(self._group, self.name, interruptOnCancel=True)
            state = self._found()
            while not self._stopping.is_set():
                began_s = time.monotonic()
                state = self._batch(state)
                if not self.has_data:
                    with self._changed:
                        self._idle += 1
                        self._changed.notify_all()
                left_s = self.interval_s - (time.monotonic() - began_s)
                self._stopping.wait(max(left_s, 0.0 if self.has_data else _LEAST_PAUSE_S))
        except BatchRefusedError:
            pass
        except BaseException as error:
            self.failure = error
            if not self._stopping.is_set():
                _log.exception("batch_failed", app=self.name)
        finally:
            self._stopping.set()
            with self._changed:
                self._changed.notify_all()

    def _found(self) -> _Reached:
        """How far the checkpoint is. Nobody else writes to it while the query runs."""
        checkpoint = self.checkpoint
        finished, planned = checkpoint.last_committed_batch(), checkpoint.last_planned_batch()
        batch_id = 0 if finished is None else finished + 1
        position = checkpoint.committed_position()
        if finished is None and not position.offsets:
            position = self.plans.first()
            checkpoint.begin_at(position)
        end = None if planned is None or planned < batch_id else checkpoint.end_position(batch_id)
        return _Reached(batch_id, position, end, 0 if planned is None else checkpoint.planned_at_ms(planned))

    def _batch(self, state: _Reached) -> _Reached:
        """Plans and runs the next batch, if there is one."""
        phases, (batch_id, position, end, planned_ms) = dict[str, int](), state
        with _timed(phases, "triggerExecution"):
            if end is None:
                with _timed(phases, "latestOffset"):
                    start, end = self.plans.next(position)
                self.has_data = end != position or self.due()
                if not self.has_data:
                    return state
                planned_ms = max(planned_ms + 1, SystemClock().now_ms())
                with _timed(phases, "walCommit"):
                    self.checkpoint.plan(batch_id, start, end, planned_ms)
            self.has_data = True
            if self._stopping.is_set():
                return state
            with _timed(phases, "addBatch"):
                self.process(batch_id)
            with _timed(phases, "commitOffsets"):
                self.checkpoint.commit(batch_id, kept=_KEPT_BATCHES)
        self.has_data = end != position  # behind a batch without records, none wait
        self.reports.append(BatchReport(batch_id, round(time.time() * 1000), phases))
        return _Reached(batch_id + 1, end, None, planned_ms)


@contextmanager
def _timed(phases: dict[str, int], name: str) -> Iterator[None]:
    began_s = time.monotonic()
    yield
    phases[name] = round(1000 * (time.monotonic() - began_s))
