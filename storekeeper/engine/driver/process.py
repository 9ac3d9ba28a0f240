"""A driver: the process that runs one app, or several on one Spark context.

Apps that share a driver share one JVM. Lease, checkpoint, heartbeat and generations are each app's own. When one app
fails, it is started again in the same driver, a few times; the others go on. If all have failed, or the JVM has, the
driver ends, and the supervisor starts it again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Protocol

import structlog

from storekeeper.apps.registry import SHARED_DRIVER
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.clock import Clock
from storekeeper.engine.runtime.heartbeat_writer import described
from storekeeper.engine.runtime.lease import Lease
from storekeeper.engine.runtime.scale import scaled
from storekeeper.engine.runtime.session import jvm_pid, reaching_by_spark, start_for_apps, stop_spark
from storekeeper.errors import ConfigurationError, RefusedError, StateError

if TYPE_CHECKING:
    from pyspark import SparkContext

_RETRIES = 3
_PAUSE_S = 10.0
"""Before the first retry; twice as long before each further one."""
_STEADY_S = 600.0
"""An app that ran for as long begins to count its failures anew."""

_log = structlog.get_logger(__name__)


class RunOf(Protocol):
    """Makes the run of one app: a function that returns when `stop` is set, and raises the error that ended it."""

    def __call__(
        self,
        app: AppSpec,
        settings: AppSettings,
        clock: Clock,
        stop: threading.Event,
        shared: SparkContext | None = None,
    ) -> Callable[[], None]:
        """The run, on a context that several apps share, or on one of its own."""


def run_apps(
    apps: Sequence[AppSpec], settings: AppSettings, clock: Clock, stop: threading.Event, run_of: RunOf
) -> None:
    """Runs apps until `stop` is set, then lets their running batches finish.

    Args:
        apps: one app, which gets a Spark context of its own, or several, which share one.
        settings: those of the process. The size of an app, or of the shared driver, is applied to them.
        clock: the source of the time.
        stop: ends the run. It is set when the context that several apps share has failed.
        run_of: makes each app's run.

    Raises:
        StateError: the error of the app, or of the first of several that all failed; see `AppRun`.
    """
    if len(apps) > 1:
        _run_shared(apps, scaled(settings, SHARED_DRIVER), clock, stop, run_of)
        return
    (app,) = apps
    run_of(app, scaled(app.settings(settings), app.name), clock, stop)()


def _run_shared(
    apps: Sequence[AppSpec], settings: AppSettings, clock: Clock, stop: threading.Event, run_of: RunOf
) -> None:
    with ExitStack() as stack:
        lease = stack.enter_context(Lease(settings.lease_file(SHARED_DRIVER), clock=clock, wait=time.sleep))
        lease.acquire()
        spark = start_for_apps(SHARED_DRIVER, apps, settings)
        stack.callback(stop_spark, spark)
        lease.record_jvm(jvm_pid(spark))
        stack.enter_context(reaching_by_spark(settings.tables))
        threads = stack.enter_context(ThreadPoolExecutor(len(apps)))
        runs = [
            threads.submit(
                _keep_running, app.name, partial(run_of, app, app.settings(settings), clock, stop, spark), clock, stop
            )
            for app in apps
        ]
        wait(runs)
    errors = [error for error in (run.exception() for run in runs) if error is not None]
    foreign = next((error for error in errors if not isinstance(error, StateError)), None)
    if foreign is not None or len(errors) == len(apps):
        raise foreign or errors[0]


def _keep_running(name: str, new_run: Callable[[], Callable[[], None]], clock: Clock, stop: threading.Event) -> None:
    """Runs one of several apps, and starts it again after errors that a restart may cure.

    Raises:
        StateError: it failed for good. The other apps go on.
        Exception: it failed in a way that is not known, perhaps with the context: all apps are to stop.
    """
    failures = 0
    while True:
        began_s = clock.monotonic_s()
        try:
            new_run()()
            return
        except StateError as error:
            _log.error("app_failed", app=name, error=described(error))
            failures = failures + 1 if clock.monotonic_s() - began_s < _STEADY_S else 1
            is_final = isinstance(error, ConfigurationError | RefusedError) or failures > _RETRIES
            if is_final or stop.wait(_PAUSE_S * 2 ** (failures - 1)):
                raise
        except BaseException:
            _log.exception("app_failed", app=name)
            stop.set()
            raise
