"""A process of an app with generations: it runs and pauses the generation of its role, as the journal says.

The process survives hand-overs: it ends a query between two batches, releases the generation's lease, waits, and
follows its next orders on the same JVM. A step that acquires the lease can be sure that nothing of that generation
runs. The process sees a change of the journal within `POLL_S` seconds.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import structlog

from spark_apps.checkpoint import SparkCheckpoint
from spark_apps.gate import BatchRefusedError
from spark_apps.generations.boundary import take_back
from spark_apps.generations.catalog import first_journal, known_migrations, settings_of, spec_of
from spark_apps.generations.journal import Generation, JournalFile
from spark_apps.generations.orders import Orders, Role, orders_for
from spark_apps.generations.run_lease import generation_lease
from spark_apps.heartbeat import AppState, Heartbeat, read_heartbeat
from spark_apps.lease import Lease
from spark_apps.preflight import preflight
from spark_apps.progress import offsets_of
from spark_apps.pulse import Pulse
from spark_apps.runner import AppRun, described
from spark_apps.session import jvm_pid, start_session, stop_session
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec
from spark_apps.stream import ProcessBatch
from spark_apps.topics import Topics
from state.clock import Clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_S = 0.2

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class BatchLimit:
    """Lets batches up to `last` run, and remembers the newest one that began. Called by Spark's thread.

    `last` is None if there is no limit.
    """

    last: int | None
    end: Callable[[], object]
    begun: int = -1

    def __call__(self, process: ProcessBatch) -> ProcessBatch:
        """`process` within the limit."""

        def limited(batch: DataFrame, batch_id: int) -> None:
            if self.last is not None and batch_id > self.last:
                self.end()
                raise BatchRefusedError("the generation holds here")
            self.begun = batch_id
            process(batch, batch_id)

        return limited


@dataclass(frozen=True, slots=True)
class _Term(AppRun):
    """One query, from one change of orders to the next, on a session that outlives it."""

    def run(self, spark: SparkSession, pulse: Pulse) -> None:
        assert self.generation is not None  # noqa: S101 (given by `GenerationRun`)
        topics = Topics(self.settings.kafka_bootstrap)
        found = preflight(self.spec, self.settings, topics, self.clock)
        if not self.stop.is_set():
            self._stream(spark, pulse, found)


@dataclass(slots=True)
class GenerationRun:
    """The process in one role of an app. `around_batch` and `shared` are as in `AppRun`."""

    spec: AppSpec
    settings: AppSettings
    clock: Clock
    stop: threading.Event
    role: Role
    around_batch: Callable[[ProcessBatch], ProcessBatch] = lambda process: process
    shared: SparkSession | None = None
    _spark: SparkSession | None = field(default=None, init=False)
    _starts: int = field(default=1, init=False)

    def __call__(self) -> None:
        """Runs until `stop` is set, then lets the running batch finish; or until there is no generation for the role.

        Raises:
            StateError: as `AppRun`; GenerationRefusedError if the app can't have generations.
        """
        program = self.role.program(self.spec.name)
        with Lease(self.settings.lease_file(program), clock=self.clock, wait=time.sleep) as lease:
            lease.acquire(self.settings.lease_timeout_s)
            with self._beating(program) as pulse:
                try:
                    self._follow(lease, pulse)
                finally:
                    if self._spark is not None and self.shared is None:
                        stop_session(self._spark)

    def _follow(self, lease: Lease, pulse: Pulse) -> None:
        while not self.stop.is_set():
            orders = self._orders()
            if orders is None:
                _log.info("no_generation", app=self.spec.name, role=self.role)
                return
            if orders.fulfilled(self._checkpoint(orders.generation)):
                self._pause(orders, pulse)
            else:
                self._run(orders, lease, pulse)

    def _orders(self) -> Orders | None:
        journal = JournalFile(self.settings.run_dir, self.spec.name).read() or first_journal(self.spec)
        return orders_for(journal, self.role)

    def _pause(self, orders: Orders, pulse: Pulse) -> None:
        position = self._checkpoint(orders.generation).committed_position()
        pulse.become(
            replace(
                self._heartbeat(orders.generation, AppState.PAUSED),
                batch_id=self._checkpoint(orders.generation).last_committed_batch(),
                offsets=offsets_of(position),
            )
        )
        _log.info("holding", app=self.spec.name, generation=orders.generation.number)
        # A crashed step may have left a planned batch behind, which must run under the same orders.
        checkpoint = self._checkpoint(orders.generation)
        while not self.stop.wait(POLL_S) and self._orders() == orders and orders.fulfilled(checkpoint):
            pass

    def _run(self, orders: Orders, process_lease: Lease, pulse: Pulse) -> None:
        settings = settings_of(self.settings, orders.generation)
        name = generation_lease(self.spec.name, orders.generation.number)
        pulse.become(self._heartbeat(orders.generation, AppState.STARTING))
        with Lease(settings.lease_file(name), clock=self.clock, wait=time.sleep) as lease:
            lease.acquire(settings.lease_timeout_s)
            # The previous holder of the lease may have changed the orders.
            if self._orders() != orders:
                return
            spark = self._session(process_lease)
            pid = jvm_pid(spark)
            if pid is not None:
                lease.record_jvm(pid)
            pulse.enter(AppState.STARTING, jvm_pid=pid)
            self._term(orders, spark, pulse)

    def _term(self, orders: Orders, spark: SparkSession, pulse: Pulse) -> None:
        checkpoint = self._checkpoint(orders.generation)
        planned_before = checkpoint.last_planned_batch()
        ended = threading.Event()
        limit = BatchLimit(_last_batch(orders, checkpoint), ended.set)
        term = _Term(
            spec_of(self.spec, orders.generation),
            settings_of(self.settings, orders.generation),
            self.clock,
            ended,
            around_batch=lambda process: limit(self.around_batch(process)),
            generation=orders.generation,
        )
        with self._watching(orders, lambda: orders.reached(checkpoint, owed=planned_before), ended):
            term.run(spark, pulse)
        planned = checkpoint.last_planned_batch()
        never_begun = planned is not None and planned > max(limit.begun, planned_before or 0)
        # A paused generation must have no unfinished batch. A batch that was begun is finished instead.
        if planned is not None and never_begun and not self.stop.is_set():
            take_back(checkpoint, planned)

    @contextmanager
    def _watching(self, orders: Orders, reached: Callable[[], bool], ended: threading.Event) -> Iterator[None]:
        """Ends the term when the process must stop, the orders change, or the query has reached them."""

        def watch() -> None:
            while not ended.wait(POLL_S):
                try:
                    if self.stop.is_set() or reached() or self._orders() != orders:
                        ended.set()
                except OSError:
                    continue
                except Exception:
                    # An unwatched term would miss new orders and the stop signal. So it ends, and `_follow` meets
                    # the same error and raises it.
                    _log.exception("orders_not_watched", app=self.spec.name)
                    ended.set()

        thread = threading.Thread(target=watch, name="orders", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _session(self, lease: Lease) -> SparkSession:
        if self._spark is None:
            self._spark = self.shared or start_session(self.role.program(self.spec.name), self.settings)
            pid = jvm_pid(self._spark)
            if pid is not None:
                lease.record_jvm(pid)
        return self._spark

    def _checkpoint(self, generation: Generation) -> SparkCheckpoint:
        return SparkCheckpoint(settings_of(self.settings, generation).checkpoint_dir(self.spec.name))

    @contextmanager
    def _beating(self, program: str) -> Iterator[Pulse]:
        orders = self._orders()
        generation = orders.generation if orders is not None else first_journal(self.spec).live_generation
        path = self.settings.heartbeat_file(program)
        before = read_heartbeat(path)
        self._starts = 1 if before is None else before.starts + 1
        first = self._heartbeat(generation, AppState.STARTING)
        pulse = Pulse(path, first, interval_s=self.settings.heartbeat_interval_s, clock=self.clock)
        pulse.start()
        try:
            yield pulse
        except BaseException as error:
            pulse.enter(AppState.FAILED, error=described(error))
            raise
        else:
            pulse.enter(AppState.STOPPED)
        finally:
            pulse.stop()

    def _heartbeat(self, generation: Generation, state: AppState) -> Heartbeat:
        now_ms = self.clock.now_ms()
        return Heartbeat(
            app=self.spec.name,
            generation=generation.number,
            pid=os.getpid(),
            jvm_pid=None if self._spark is None else jvm_pid(self._spark),
            state=state,
            started_at_ms=now_ms,
            updated_at_ms=now_ms,
            starts=self._starts,
            migrations=known_migrations(self.spec),
        )


def _last_batch(orders: Orders, checkpoint: SparkCheckpoint) -> int | None:
    """The last batch that may begin; None if it is not known beforehand.

    Planned batches run first: a process that crashed may have begun them.
    """
    if not orders.holds or orders.position is not None:
        return None
    return checkpoint.last_planned_batch() if orders.batch is None else orders.batch
