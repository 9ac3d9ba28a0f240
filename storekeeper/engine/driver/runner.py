"""Running an app: one copy, checked before it starts, watched while it runs, stopped between two batches.

Stops an app when too large a share of its input can't be processed.

Dead letters are for single sources of invalid records, such as a broken till. A producer with a new format, or the
wrong topic, would turn a day's input into dead letters, and the app would seem to make progress.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import structlog
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import own_topics, read_topics
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.seeds import SeedSource
from storekeeper.clock import Clock
from storekeeper.engine.driver.preflight import Preflight, preflight
from storekeeper.engine.restore_progress import restore_dir, restores
from storekeeper.engine.runtime.batch_query import BatchQuery, ProcessBatch
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, read_heartbeat
from storekeeper.engine.runtime.heartbeat_writer import HeartbeatWriter, described
from storekeeper.engine.runtime.lease import Lease
from storekeeper.engine.runtime.progress import Progress, advanced, offsets_of, with_progress
from storekeeper.engine.runtime.session import jvm_pid, start_for_apps, stop_spark
from storekeeper.engine.runtime.stream import GenerationView, Stream, StreamContext
from storekeeper.engine.runtime.topics import Topics, check_partitions, counts_in
from storekeeper.engine.stream import open_topology_stream
from storekeeper.errors import ConfigurationError, StateError


class DeadLetterLimitError(ConfigurationError):
    """Too large a share of the input became dead letters. The app has stopped and a restart alone won't help."""


class _Seen(NamedTuple):
    at_s: float
    rows: int
    dead_letters: int


@dataclass(slots=True)
class DeadLetterBreaker:
    """Watches the share of dead letters in the input of the last `window_s` seconds. Not thread-safe.

    A share above `max_share` trips the breaker, unless there were fewer than `min_records` records in that time.
    """

    max_share: float
    window_s: float
    min_records: int
    _seen: deque[_Seen] = field(default_factory=lambda: deque([_Seen(0.0, 0, 0)]))

    def check(self, now_s: float, rows: int, dead_letters: int) -> None:
        """Adds the totals since the start at time `now_s`, which must not decrease, and checks the share.

        Raises:
            DeadLetterLimitError: the breaker trips.
        """
        seen = self._seen
        # Of the entries older than the window, only the newest is kept: the window begins there.
        while len(seen) > 1 and seen[1].at_s <= now_s - self.window_s:
            seen.popleft()
        seen.append(_Seen(now_s, rows, dead_letters))
        total, dead = rows - seen[0].rows, dead_letters - seen[0].dead_letters
        if total >= self.min_records and dead > self.max_share * total:
            raise DeadLetterLimitError(
                f"{dead} of the last {total} records can't be processed, more than {self.max_share:.0%}: look at the "
                "dead letters' headers for the reason, correct what writes to the topic, then start the app again; "
                "to accept these dead letters, raise `max_dead_letter_share`"
            )


if TYPE_CHECKING:
    from pyspark import SparkContext

DRAIN_TIMEOUT_S = 45.0
"""How long a stopping app lets its batch run before it cuts it: shorter than supervisor waits before it kills."""
_BREAKER_WINDOW_S = 60.0
_BREAKER_MIN_RECORDS = 1000
"""Fewer records in that time say nothing about the share of dead letters."""
_POLL_S = 0.2
"""A query that failed waits this long for its end."""
_WATCH_TIMEOUT_S = 1.0

_log = structlog.get_logger(__name__)


class StreamFailedError(StateError):
    """The stream ended by itself. The log has the cause; a restart goes on at the last finished batch."""


@dataclass(frozen=True, slots=True)
class AppRun:
    """One run of an app.

    `around_batch` wraps what the app does with a batch: tests put a crash there. `generation` is the journal's entry
    of the generation that is run. `shared` is the session of a driver that runs several apps; without it the app starts
    a session of its own. `seeds` finds the tables that local stores may begin with.
    """

    spec: AppSpec
    settings: AppSettings
    clock: Clock
    stop: threading.Event
    around_batch: Callable[[ProcessBatch], ProcessBatch] = lambda process: process
    generation: GenerationView | None = None
    shared: SparkContext | None = None
    seeds: SeedSource | None = None

    def __call__(self) -> None:
        """Runs the app until `stop` is set, then lets the running batch finish.

        Raises:
            ConfigurationError: it can't start as things are; nothing was started.
            BrokerUnavailableError, AppRunningError: it can't start now.
            StreamFailedError: it started and then failed.
        """
        spec, settings = self.spec, self.settings
        with Lease(settings.lease_file(spec.name), clock=self.clock, wait=time.sleep) as lease:
            lease.acquire()
            path = settings.heartbeat_file(spec.name)
            first = first_heartbeat(path, spec, settings.generation, self.clock)
            with HeartbeatWriter(path, first, clock=self.clock).running() as heartbeats:
                self.run(lease, heartbeats)

    def run(self, lease: Lease, heartbeats: HeartbeatWriter) -> None:
        """The same under a lease that is held, with heartbeats that are written. The lease then names the JVM."""
        checked = preflight(self.spec, self.settings, Topics(self.settings.kafka), self.clock)
        if self.stop.is_set():
            return
        spark = self.shared or start_for_apps(self.spec.name, [self.spec], self.settings)
        try:
            pid = jvm_pid(spark)
            lease.record_jvm(pid)
            heartbeats.enter(AppState.STARTING, jvm_pid=pid)
            self._query(spark, heartbeats, checked)
        finally:
            if self.shared is None:
                stop_spark(spark)

    def _query(self, spark: SparkContext, heartbeats: HeartbeatWriter, checked: Preflight) -> None:
        checkpoint = BatchCheckpoint(self.settings.checkpoint_dir(self.spec.name))
        made_with = checked.claim.partitions
        context = StreamContext(
            self.spec, spark, self.settings, checkpoint, generation=self.generation,
            partitions=made_with, slots=checked.claim.slots, seeds=self.seeds,
        )  # fmt: skip
        stream = opened(context)
        process = self._on_same_topics(stream.process, checkpoint, checked.claim)
        query = self.begin(replace(stream, process=self.around_batch(process)), context)
        try:
            # By now the app has made its own topics.
            own = Topics(self.settings.kafka).ids(own_topics(self.spec, self.settings, checked.claim.slots))
            claim = replace(checked.claim, query_id=checkpoint.query_id(), topic_ids={**checked.claim.topic_ids, **own})
            claim.write(checkpoint.path)
        except BaseException:
            query.stop()  # nobody else does while another app has the session, and the lease ends here
            raise
        watch = Watch(self, query, context, checked)
        heartbeats.refresh_with(watch)
        heartbeats.enter(AppState.RUNNING)
        _log.info("running", app=self.spec.name, generation=self.settings.generation)
        while query.is_active and watch.tripped is None and not self.stop.wait(_POLL_S):
            pass
        if self.stop.is_set() or watch.tripped is not None:
            heartbeats.enter(AppState.STOPPING)
            self._drain(query)
            if watch.tripped is not None:
                raise watch.tripped
        else:
            failure = _failure(query)
            _log.error("stream_failed", app=self.spec.name, error=described(failure))
            raise failure

    def _on_same_topics(
        self, process: ProcessBatch, checkpoint: BatchCheckpoint, claim: CheckpointOwner
    ) -> ProcessBatch:
        """Wraps `process`: refuses a batch if topics were recreated, or have other numbers of partitions than at first.

        A planned batch has new partitions, and goes on in a recreated topic that is long enough. Until `process` runs
        nothing of it is executed.
        """
        topics, sources = Topics(self.settings.kafka), self.spec.sources(self.settings)

        def checked(batch_id: int) -> None:
            claim.check_sources(topics.ids(sources))
            check_partitions(self.spec.name, claim.partitions, counts_in(checkpoint.end_position(batch_id)))
            process(batch_id)

        return checked

    def begin(self, stream: Stream, context: StreamContext) -> BatchQuery:
        """Starts the query."""
        interval_ms = stream.trigger_interval_ms
        if interval_ms is None:
            interval_ms = self.settings.trigger_interval_ms
        return stream.query(context, interval_ms=interval_ms).start()

    def _drain(self, query: BatchQuery) -> None:
        """Waits until the running batch is finished, at most `DRAIN_TIMEOUT_S`, then ends the query."""
        if not query.drain(DRAIN_TIMEOUT_S):
            _log.warning("batch_cut_off", app=self.spec.name, after_s=DRAIN_TIMEOUT_S)
            query.stop()


def first_heartbeat(path: Path, spec: AppSpec, generation: int, clock: Clock) -> Heartbeat:
    """The first beat of a process that runs an app, for the file at `path`: it counts on from the one before."""
    now_ms, before = clock.now_ms(), read_heartbeat(path)
    return Heartbeat(
        app=spec.name,
        generation=generation,
        pid=os.getpid(),
        state=AppState.STARTING,
        started_at_ms=now_ms,
        updated_at_ms=now_ms,
        starts=1 if before is None else before.starts + 1,
        dead_letters_total=0 if before is None else before.dead_letters_total,
        dropped_total=0 if before is None else before.dropped_total,
    )


def opened(context: StreamContext) -> Stream:
    """An app's stream: that of its topology, or of its table.

    Raises:
        ConfigurationError: it has neither, or can't run on the existing topics.
    """
    spec = context.spec
    if spec.describe is not None:
        return open_topology_stream(context, spec.describe)
    if spec.table_sink is None:
        msg = f"app {spec.name} has neither a topology nor a table: make it with topology_app or table_app"
        raise ConfigurationError(msg)
    from storekeeper.engine.table_sink.stream import open_table_stream  # noqa: PLC0415 (loads Arrow and Delta)

    return open_table_stream(context, spec.table_sink)


class Watch:
    """Brings a running app's heartbeat up to date. Called by the heartbeat writer's thread alone."""

    def __init__(self, run: AppRun, query: BatchQuery, context: StreamContext, checked: Preflight) -> None:
        settings = run.settings
        self._run = run
        self._query = query
        self._checkpoint = context.checkpoint
        self._metrics = context.metrics
        self._restore_dir = restore_dir(settings, run.spec.name)
        self._breaker = DeadLetterBreaker(settings.max_dead_letter_share, _BREAKER_WINDOW_S, _BREAKER_MIN_RECORDS)
        self.tripped: DeadLetterLimitError | None = None
        self._topics = Topics(run.settings.kafka, timeout_s=_WATCH_TIMEOUT_S)
        self._start = checked.position
        self._end = checked.end
        self._progress = Progress()
        self._counted_before: tuple[int, int] | None = None

    def __call__(self, heartbeat: Heartbeat) -> Heartbeat:
        """The updated heartbeat. Dead letters and records left out are counted on from its first one."""
        if self._counted_before is None:
            self._counted_before = heartbeat.dead_letters_total, heartbeat.dropped_total
        dead_letters_before, dropped_before = self._counted_before
        before, now_ms = self._progress, self._run.clock.now_ms()
        self._progress = advanced(before, self._query.reports, self._metrics.rows)
        position = self._start.merged(self._checkpoint.committed_position())
        idle = not self._query.has_data
        restoring = tuple(map(asdict, restores(self._restore_dir)))
        moved = idle or self._progress is not before or restoring != heartbeat.restoring
        written = self._metrics.sum
        self._check_dead_letters()
        beat = with_progress(heartbeat, self._progress, now_ms)
        beat = replace(
            beat,
            watermark_ms=written.stream_time_ms if written.stream_time_ms >= 0 else None,
            dead_letters_total=dead_letters_before + written.dead_letters,
            dropped_total=dropped_before + written.dropped,
            restoring=restoring,
            offsets=offsets_of(position),
            last_progress_ms=now_ms if moved else heartbeat.last_progress_ms,
        )
        # While the broker is unavailable, the last known ends are kept.
        with contextlib.suppress(BrokerUnavailableError):
            self._end = self._topics.end(read_topics(self._run.spec, self._run.settings))
        return replace(beat, latest_offsets=offsets_of(self._end.merged(position)))

    def _check_dead_letters(self) -> None:
        written = self._metrics.sum
        try:
            self._breaker.check(self._run.clock.monotonic_s(), written.rows, written.dead_letters)
        except DeadLetterLimitError as tripped:
            self.tripped = tripped


def _failure(query: BatchQuery) -> StateError:
    """What an app ends with whose query has ended by itself."""
    error = query.failure
    if isinstance(error, StateError):
        return error
    if error is None:
        return StreamFailedError("the query ended without an error")
    if isinstance(error, (Py4JError, OSError)) and not isinstance(error, Py4JJavaError):
        lost = f"the JVM is gone ({type(error).__name__}): see the log; a restart goes on at the last finished batch"
        return StreamFailedError(lost)
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return StreamFailedError(f"the query failed ({condition or type(error).__name__}): see the log for the cause")
