"""A driver: the process that runs one app, or several as queries of one Spark session.

Apps that share a driver share one JVM. Lease, checkpoint, heartbeat and generations are each app's own. When one app
fails, all stop, and the supervisor starts the driver again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import structlog

from spark_apps.generations.catalog import numbered
from spark_apps.generations.desired_state import Role
from spark_apps.generations.run import GenerationRun
from spark_apps.registry import SHARED_DRIVER
from spark_apps.runtime.runner import AppRun
from spark_apps.runtime.scale import scaled
from spark_apps.runtime.session import leased_session
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec
from state.clock import Clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = structlog.get_logger(__name__)


def run_apps(apps: Sequence[AppSpec], settings: AppSettings, clock: Clock, stop: threading.Event) -> None:
    """Runs apps until `stop` is set, then lets their running batches finish.

    Args:
        apps: one app, which gets a session of its own, or several, which share one.
        settings: those of the process. The size of an app, or of the shared driver, is applied to them.
        clock: the source of the time.
        stop: ends the run. It is set when one of several apps fails.

    Raises:
        StateError: the error of the app, or of the first of several to fail; see `AppRun`.
    """
    if len(apps) > 1:
        _run_shared(apps, scaled(settings, SHARED_DRIVER), clock, stop)
        return
    (app,) = apps
    _run_of(app, scaled(app.settings(settings), app.name), clock, stop)()


def _run_shared(apps: Sequence[AppSpec], settings: AppSettings, clock: Clock, stop: threading.Event) -> None:
    with leased_session([SHARED_DRIVER], settings, clock) as spark, ThreadPoolExecutor(len(apps)) as threads:
        runs = {threads.submit(_run_of(app, app.settings(settings), clock, stop, spark)): app for app in apps}
        ended, _ = wait(runs, return_when=FIRST_EXCEPTION)
        stop.set()
    for run in ended:
        error = run.exception()
        if error is not None:
            _log.error("app_failed", app=runs[run].name)
            raise error


def _run_of(
    app: AppSpec, settings: AppSettings, clock: Clock, stop: threading.Event, spark: SparkSession | None = None
) -> GenerationRun | AppRun:
    if app.has_generations and "generation" not in settings.model_fields_set:
        return GenerationRun(app, settings, clock, stop, Role.LIVE, shared=spark)
    return AppRun(numbered(app, settings.generation), settings, clock, stop, shared=spark)
