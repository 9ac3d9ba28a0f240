"""A driver: the process that runs one app, or several as queries of one Spark session.

Apps that share a driver share one JVM. Lease, checkpoint, heartbeat and generations are each app's own. When one app
fails, it is started again in the same driver, a few times; the others go on. If all have failed, or the JVM has, the
driver ends, and the supervisor starts it again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import structlog

from storekeeper.apps.registry import SHARED_DRIVER
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.clock import Clock
from storekeeper.engine.runtime.heartbeat_writer import described
from storekeeper.engine.runtime.runner import AppRun
from storekeeper.engine.runtime.scale import scaled
from storekeeper.engine.runtime.session import leased_session
from storekeeper.errors import ConfigurationError, RefusedError, StateError
from storekeeper.generations.catalog import numbered
from storekeeper.generations.desired_state import Role
from storekeeper.generations.run import GenerationRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RETRIES = 3
_PAUSE_S = 10.0
"""Before the first retry; twice as long before each further one."""
_STEADY_S = 600.0
"""An app that ran for as long begins to count its failures anew."""

_log = structlog.get_logger(__name__)


def run_apps(apps: Sequence[AppSpec], settings: AppSettings, clock: Clock, stop: threading.Event) -> None:
    """Runs apps until `stop` is set, then lets their running batches finish.

    Args:
        apps: one app, which gets a session of its own, or several, which share one.
        settings: those of the process. The size of an app, or of the shared driver, is applied to them.
        clock: the source of the time.
        stop: ends the run. It is set when the session that several apps share has failed.

    Raises:
        StateError: the error of the app, or of the first of several that all failed; see `AppRun`.
    """
    if len(apps) > 1:
        _run_shared(apps, scaled(settings, SHARED_DRIVER), clock, stop)
        return
    (app,) = apps
    _run_of(app, scaled(app.settings(settings), app.name), clock, stop)()


def _run_shared(apps: Sequence[AppSpec], settings: AppSettings, clock: Clock, stop: threading.Event) -> None:
    with leased_session([SHARED_DRIVER], settings, clock) as spark, ThreadPoolExecutor(len(apps)) as threads:
        runs = [threads.submit(_keep_running, app, settings, clock, stop, spark) for app in apps]
        wait(runs)
    errors = [error for error in (run.exception() for run in runs) if error is not None]
    foreign = next((error for error in errors if not isinstance(error, StateError)), None)
    if foreign is not None or len(errors) == len(apps):
        raise foreign or errors[0]


def _keep_running(
    app: AppSpec, settings: AppSettings, clock: Clock, stop: threading.Event, spark: SparkSession
) -> None:
    """Runs one of several apps, and starts it again after errors that a restart may cure.

    Raises:
        StateError: it failed for good. The other apps go on.
        Exception: it failed in a way that is not known, perhaps with the session: all apps are to stop.
    """
    failures = 0
    while True:
        began_s = clock.monotonic_s()
        try:
            _run_of(app, app.settings(settings), clock, stop, spark)()
            return
        except StateError as error:
            _log.error("app_failed", app=app.name, error=described(error))
            failures = failures + 1 if clock.monotonic_s() - began_s < _STEADY_S else 1
            is_final = isinstance(error, ConfigurationError | RefusedError) or failures > _RETRIES
            if is_final or stop.wait(_PAUSE_S * 2 ** (failures - 1)):
                raise
        except BaseException:
            _log.exception("app_failed", app=app.name)
            stop.set()
            raise


def _run_of(
    app: AppSpec, settings: AppSettings, clock: Clock, stop: threading.Event, spark: SparkSession | None = None
) -> GenerationRun | AppRun:
    if app.has_generations and "generation" not in settings.model_fields_set:
        return GenerationRun(app, settings, clock, stop, Role.LIVE, shared=spark)
    return AppRun(numbered(app, settings.generation), settings, clock, stop, shared=spark)
