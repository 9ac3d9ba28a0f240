"""Several small apps in one process: one JVM and one Spark session; lease, checkpoint and heartbeat are each app's own.

They share fate: when one fails, all stop, and whoever keeps the process alive starts them all again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from spark_apps.generations.journal import FIRST_GENERATION, JournalFile
from spark_apps.heartbeat import AppState
from spark_apps.lease import Lease
from spark_apps.preflight import preflight
from spark_apps.pulse import Pulse
from spark_apps.registry import TOGETHER
from spark_apps.runner import AppRun
from spark_apps.session import jvm_pid, start_session, stop_session
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec
from spark_apps.topics import Topics
from state.clock import Clock
from state.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Member(AppRun):
    """One app of the process, on a session that isn't its own. `spark` is None only while nothing runs."""

    spark: SparkSession | None = None

    def _run(self, lease: Lease, pulse: Pulse) -> None:
        spark = self.spark
        assert spark is not None  # noqa: S101 (given by `run_together`)
        found = preflight(self.spec, self.settings, Topics(self.settings.kafka_bootstrap), self.clock)
        if self.stop.is_set():
            return
        pid = jvm_pid(spark)
        if pid is not None:
            lease.record_jvm(pid)
        pulse.enter(AppState.STARTING, jvm_pid=pid)
        self._stream(spark, pulse, found)


def run_together(apps: Sequence[AppSpec], settings: AppSettings, clock: Clock, stop: threading.Event) -> None:
    """Runs apps side by side until `stop` is set, then lets their running batches finish.

    Raises:
        ConfigurationError: the state of one of them was changed by a generation, or is being changed.
        StateError: what the first app to fail failed with; see `AppRun`. The others were stopped.
    """
    for app in apps:
        _check_unchanged(app, settings)
    with Lease(settings.lease_file(TOGETHER), clock=clock, wait=time.sleep) as lease:
        lease.acquire(settings.lease_timeout_s)
        spark = start_session(TOGETHER, settings)
        try:
            pid = jvm_pid(spark)
            if pid is not None:
                lease.record_jvm(pid)
            members = [_Member(app, app.settings(settings), clock, stop, spark=spark) for app in apps]
            _run_all(members, stop)
        finally:
            stop_session(spark)


def _check_unchanged(app: AppSpec, settings: AppSettings) -> None:
    journal = JournalFile(settings.run_dir, app.name).read()
    if journal is not None and (journal.live != FIRST_GENERATION or journal.other is not None):
        msg = (
            f"{app.name} has generation {journal.live} live and another one beside it or before it, which takes a "
            f"process of its own: start it by `run {app.name}`, and name the other apps here"
        )
        raise ConfigurationError(msg)


def _run_all(members: Sequence[_Member], stop: threading.Event) -> None:
    failures: list[BaseException] = []

    def run(member: _Member) -> None:
        try:
            member()
        except BaseException as error:
            _log.exception("app_failed", app=member.spec.name)
            failures.append(error)
            stop.set()

    threads = [threading.Thread(target=run, args=(member,), name=member.spec.name) for member in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        # In short steps, so that signals are handled meanwhile.
        while thread.is_alive():
            thread.join(0.2)
    if failures:
        raise failures[0]
