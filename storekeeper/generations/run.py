"""A process of an app with generations: it runs and pauses the generation of its role, as the journal says.

The process survives hand-overs: it ends a query between two batches, releases the generation's lease, waits, and
follows its next desired state on the same JVM. Nothing of a generation runs while a step holds its lease. The process
sees a change of the journal within `POLL_S` seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import structlog

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.clock import Clock
from storekeeper.engine.driver.runner import AppRun, first_heartbeat
from storekeeper.engine.runtime.batch_query import BatchRefusedError, ProcessBatch
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, read_heartbeat
from storekeeper.engine.runtime.heartbeat_writer import HeartbeatWriter
from storekeeper.engine.runtime.lease import Lease
from storekeeper.engine.runtime.progress import offsets_of
from storekeeper.engine.runtime.session import jvm_pid, start_for_apps, stop_spark
from storekeeper.errors import TablesUnreachableError
from storekeeper.generations.boundary import take_back
from storekeeper.generations.catalog import first_journal, known_migrations, numbered, spec_of
from storekeeper.generations.desired_state import DesiredState, Role, desired_state_of, generation_lease
from storekeeper.generations.journal import Generation, Journal, JournalFile
from storekeeper.snapshots.seed_tables import SeedTables

if TYPE_CHECKING:
    from pyspark import SparkContext

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

        def limited(batch_id: int) -> None:
            if self.last is not None and batch_id > self.last:
                self.end()
                raise BatchRefusedError("the generation holds here")
            self.begun = batch_id
            process(batch_id)

        return limited


@dataclass(slots=True)
class GenerationRun:
    """The process in one role of an app. `around_batch` and `shared` are as in `AppRun`."""

    spec: AppSpec
    settings: AppSettings
    clock: Clock
    stop: threading.Event
    role: Role
    around_batch: Callable[[ProcessBatch], ProcessBatch] = lambda process: process
    shared: SparkContext | None = None
    _spark: SparkContext | None = field(default=None, init=False)
    _first: Heartbeat = field(init=False)
    _unwritten: Journal | None = field(default=None, init=False)

    def __call__(self) -> None:
        """Runs until `stop` is set, then lets the running batch finish; or until there is no generation for the role.

        Raises:
            StateError: as `AppRun`; GenerationRefusedError if the app can't have generations.
        """
        program = self.role.program(self.spec.name)
        with Lease(self.settings.lease_file(program), clock=self.clock, wait=time.sleep) as lease:
            lease.acquire()
            with self._heartbeats(program).running() as heartbeats:
                try:
                    self._follow(lease, heartbeats)
                finally:
                    if self._spark is not None and self.shared is None:
                        stop_spark(self._spark)

    def _follow(self, lease: Lease, heartbeats: HeartbeatWriter) -> None:
        while not self.stop.is_set():
            desired = self._desired()
            if desired is None:
                _log.info("no_generation", app=self.spec.name, role=self.role)
                return
            if desired.fulfilled(self._checkpoint(desired.generation)):
                self._pause(desired, heartbeats)
            else:
                self._run(desired, lease, heartbeats)

    def _desired(self) -> DesiredState | None:
        journal = JournalFile(self.settings.durable, self.spec.name).read()
        if journal is None:
            # It describes the topology, which reads the settings: once is enough, and each poll would be too often.
            self._unwritten = journal = self._unwritten or first_journal(self.spec)
        return desired_state_of(journal, self.role)

    def _pause(self, desired: DesiredState, heartbeats: HeartbeatWriter) -> None:
        position = self._checkpoint(desired.generation).committed_position()
        heartbeats.become(
            replace(
                self._heartbeat(desired.generation, AppState.PAUSED),
                batch_id=self._checkpoint(desired.generation).last_committed_batch(),
                offsets=offsets_of(position),
            )
        )
        _log.info("holding", app=self.spec.name, generation=desired.generation.number)
        # A crashed step may have left a planned batch behind, which must run first.
        checkpoint = self._checkpoint(desired.generation)
        while not self.stop.wait(POLL_S) and self._desired() == desired and desired.fulfilled(checkpoint):
            pass

    def _run(self, desired: DesiredState, process_lease: Lease, heartbeats: HeartbeatWriter) -> None:
        settings = self.settings.in_generation(desired.generation.number)
        name = generation_lease(self.spec.name, desired.generation.number)
        heartbeats.become(self._heartbeat(desired.generation, AppState.STARTING))
        with Lease(settings.lease_file(name), clock=self.clock, wait=time.sleep) as lease:
            lease.acquire()
            # The previous holder of the lease may have changed the desired state.
            if self._desired() != desired:
                return
            checkpoint = self._checkpoint(desired.generation)
            if desired.batch is not None:
                # A killed process or step may have left a later plan. It was never begun: the step set the batch under
                # this lease when no later one was planned, and no query since then has begun a later one.
                take_back(checkpoint, desired.batch)
            if not desired.fulfilled(checkpoint):
                self._term(desired, self._session(process_lease), lease, heartbeats)

    def _term(self, desired: DesiredState, spark: SparkContext, lease: Lease, heartbeats: HeartbeatWriter) -> None:
        """Runs one query, from one change of the desired state to the next, on a session that outlives it."""
        checkpoint = self._checkpoint(desired.generation)
        planned_before = checkpoint.last_planned_batch()
        ended = threading.Event()
        limit = BatchLimit(desired.last_batch(checkpoint), ended.set)
        term = AppRun(
            spec_of(self.spec, desired.generation),
            self.settings.in_generation(desired.generation.number),
            self.clock,
            ended,
            around_batch=lambda process: limit(self.around_batch(process)),
            generation=desired.generation,
            shared=spark,
            seeds=SeedTables.of(self.settings),
        )
        with self._watching(desired, lambda: desired.reached(checkpoint, owed=planned_before), ended):
            term.run(lease, heartbeats)
        # A paused generation must have no unfinished batch. A batch that was begun is finished instead.
        if not self.stop.is_set():
            take_back(checkpoint, max(limit.begun, planned_before or 0))

    @contextmanager
    def _watching(self, desired: DesiredState, reached: Callable[[], bool], ended: threading.Event) -> Iterator[None]:
        """Ends the term when the process must stop, the desired state changes, or the query has reached it."""

        def watch() -> None:
            while not ended.wait(POLL_S):
                try:
                    if self.stop.is_set() or reached() or self._desired() != desired:
                        ended.set()
                except (OSError, TablesUnreachableError):
                    continue
                except Exception:
                    # An unwatched term would miss a new desired state and the stop signal. So it ends, and `_follow`
                    # meets the same error and raises it.
                    _log.exception("desired_state_not_watched", app=self.spec.name)
                    ended.set()

        thread = threading.Thread(target=watch, name="desired-state", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _session(self, lease: Lease) -> SparkContext:
        if self._spark is None:
            self._spark = self.shared or start_for_apps(self.role.program(self.spec.name), [self.spec], self.settings)
            lease.record_jvm(jvm_pid(self._spark))
        return self._spark

    def _checkpoint(self, generation: Generation) -> BatchCheckpoint:
        return BatchCheckpoint(self.settings.in_generation(generation.number).checkpoint_dir(self.spec.name))

    def _heartbeats(self, program: str) -> HeartbeatWriter:
        desired = self._desired()
        generation = desired.generation if desired is not None else first_journal(self.spec).live_generation
        path = self.settings.heartbeat_file(program)
        first = first_heartbeat(path, self.spec, generation.number, self.clock)
        self._first = replace(first, migrations=known_migrations(self.spec))
        return HeartbeatWriter(path, self._first, clock=self.clock)

    def _last_beat(self) -> Heartbeat:
        """The last beat of this process, whichever generation it ran."""
        return read_heartbeat(self.settings.heartbeat_file(self.role.program(self.spec.name))) or self._first

    def _heartbeat(self, generation: Generation, state: AppState) -> Heartbeat:
        now_ms, last = self.clock.now_ms(), self._last_beat()
        return replace(
            self._first,
            dead_letters_total=last.dead_letters_total,
            dropped_total=last.dropped_total,
            generation=generation.number,
            jvm_pid=None if self._spark is None else jvm_pid(self._spark),
            state=state,
            started_at_ms=now_ms,
            updated_at_ms=now_ms,
        )


def run_of(  # noqa: PLR0917 (`RunOf`, and the role)
    app: AppSpec,
    settings: AppSettings,
    clock: Clock,
    stop: threading.Event,
    shared: SparkContext | None = None,
    role: Role = Role.LIVE,
) -> GenerationRun | AppRun:
    """An app's run: of the generation of a role, as the journal says; or of the live one that a setting fixes."""
    if role is Role.NEXT or (app.has_generations and not settings.fixes_generation):
        return GenerationRun(app, settings, clock, stop, role, shared=shared)
    spec, seeds = numbered(app, settings.generation), SeedTables.of(settings)
    return AppRun(spec, settings, clock, stop, shared=shared, seeds=seeds)
