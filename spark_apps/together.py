"""Several small apps in one process: one JVM and one Spark session; lease, checkpoint and heartbeat are each app's own.

They share fate: when one fails, all stop, and whoever keeps the process alive starts them all again. An app whose state
is to be changed leaves them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from spark_apps.checkpoint import SparkCheckpoint
from spark_apps.gate import BatchGate
from spark_apps.generations.journal import FIRST_GENERATION
from spark_apps.generations.run_lease import generation_lease
from spark_apps.heartbeat import AppState
from spark_apps.lease import Lease
from spark_apps.preflight import preflight
from spark_apps.pulse import Pulse
from spark_apps.registry import TOGETHER
from spark_apps.runner import AppRun
from spark_apps.session import jvm_pid, start_session, stop_session
from spark_apps.settings import AppSettings
from spark_apps.sharing import has_own_process
from spark_apps.spec import AppSpec
from spark_apps.stream import Stream
from spark_apps.topics import Topics
from state.clock import Clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

_POLL_S = 0.2
_TURN_S = 20.0
"""How long an app's first batch keeps the next one from beginning, at most."""
_WAITING = frozenset({"Waiting for data to arrive", "Waiting for next trigger"})

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Member(AppRun):
    """One app of the process, on a session that isn't its own. `spark` is None only while nothing runs.

    The apps begin their queries in `turn`, one after another: all at once, the Python processes of their first batches
    may take longer on a busy machine than Spark waits (`WorkerLateError`).
    """

    spark: SparkSession | None = None
    turn: threading.Lock = field(default_factory=threading.Lock)

    def _run(self, lease: Lease, pulse: Pulse) -> None:
        spark = self.spark
        assert spark is not None  # noqa: S101 (given by `run_together`)
        # Whoever takes a step with the app's generations takes it as a sign that the first one runs.
        name = generation_lease(self.spec.name, FIRST_GENERATION)
        with Lease(self.settings.lease_file(name), clock=self.clock, wait=time.sleep) as generation:
            generation.acquire(self.settings.lease_timeout_s)
            found = preflight(self.spec, self.settings, Topics(self.settings.kafka_bootstrap), self.clock)
            if self.stop.is_set():
                return
            pid = jvm_pid(spark)
            if pid is not None:
                lease.record_jvm(pid)
                generation.record_jvm(pid)
            pulse.enter(AppState.STARTING, jvm_pid=pid)
            self._stream(spark, pulse, found)

    def begin(self, stream: Stream, gate: BatchGate, checkpoint: SparkCheckpoint) -> StreamingQuery:
        """Starts the query when it is this app's turn, which goes on until its first batch is over."""
        self.turn.acquire()
        try:
            query = AppRun.begin(self, stream, gate, checkpoint)
        except BaseException:
            self.turn.release()
            raise
        threading.Thread(target=self._end_turn, args=(query,), name=f"{self.spec.name}-turn", daemon=True).start()
        return query

    def _end_turn(self, query: StreamingQuery) -> None:
        deadline = self.clock.monotonic_s() + _TURN_S
        try:
            while not (_has_begun(query) or self.stop.is_set() or self.clock.monotonic_s() >= deadline):
                time.sleep(_POLL_S)
        except Py4JError:
            _log.debug("jvm_gone", app=self.spec.name)  # the app's own thread reports it
        finally:
            self.turn.release()


def _has_begun(query: StreamingQuery) -> bool:
    """Whether a query has finished its first batch, waits for something to do, or is over."""
    return query.lastProgress is not None or not query.isActive or query.status["message"] in _WAITING


def run_together(apps: Sequence[AppSpec], settings: AppSettings, clock: Clock, stop: threading.Event) -> None:
    """Runs apps side by side until `stop` is set, then lets their running batches finish.

    An app that is to run by itself (`has_own_process`) is left out, or let go as if it were stopped; the others go on.

    Raises:
        StateError: what the first app to fail failed with; see `AppRun`. The others were stopped.
    """
    with Lease(settings.lease_file(TOGETHER), clock=clock, wait=time.sleep) as lease:
        lease.acquire(settings.lease_timeout_s)
        sharing = [app for app in apps if not has_own_process(app.name, settings.run_dir)]
        if sharing:
            _run_on_one_session(sharing, settings, clock, stop, lease)
        # With nothing to run it is still there to be stopped: whoever keeps it alive would start it again and again.
        stop.wait()


def _run_on_one_session(
    apps: Sequence[AppSpec], settings: AppSettings, clock: Clock, stop: threading.Event, lease: Lease
) -> None:
    spark = start_session(TOGETHER, settings)
    try:
        pid = jvm_pid(spark)
        if pid is not None:
            lease.record_jvm(pid)
        turn = threading.Lock()
        _run_all(
            [_Member(app, app.settings(settings), clock, threading.Event(), spark=spark, turn=turn) for app in apps],
            stop,
        )
    finally:
        stop_session(spark)


def _run_all(members: Sequence[_Member], stop: threading.Event) -> None:
    failures: list[BaseException] = []

    def run(member: _Member) -> None:
        try:
            member()
        except BaseException as error:
            _log.exception("app_failed", app=member.spec.name)
            failures.append(error)

    threads = {threading.Thread(target=run, args=(member,), name=member.spec.name): member for member in members}
    for thread in threads:
        thread.start()
    # In short steps, so that signals are handled meanwhile.
    while any(thread.is_alive() for thread in threads):
        for member in threads.values():
            if stop.is_set() or failures or has_own_process(member.spec.name, member.settings.run_dir):
                member.stop.set()
        time.sleep(_POLL_S)
    if failures:
        raise failures[0]
