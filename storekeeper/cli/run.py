"""The command that runs apps. Spark is loaded once the apps are known, and nothing of commands that show tables."""

from __future__ import annotations

import signal
import threading
from functools import partial
from typing import Annotated

import typer

from storekeeper.apps.priority import begin_stream
from storekeeper.apps.registry import app_named
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import SystemClock
from storekeeper.engine.driver.health_server import health_served
from storekeeper.engine.driver.watchdog import ended_if_stalled
from storekeeper.generations.aliases import aliases_kept
from storekeeper.generations.desired_state import Role, check_not_fixed


def run(
    apps: Annotated[list[str], typer.Argument(help="The app's name; or several, which share one driver.")],
    health_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of 127.0.0.1 for /livez and /readyz; by default none.")
    ] = None,
    *,
    beside: Annotated[
        bool, typer.Option("--next", help="Run the generation beside the live one; if there is none, end.")
    ] = False,
) -> None:
    """Run an app in the foreground until TERM.

    TERM lets the running batch finish. If one of several apps fails, all stop. An app that makes no progress for
    `progress_timeout_s` ends the process with exit code 75.

    Example: storekeeper run ticks
    """
    begin_stream()
    specs = [app_named(app) for app in dict.fromkeys(apps)]  # a process can't hold a lease twice
    if beside and len(specs) > 1:
        raise typer.BadParameter("goes with one app", param_hint="--next")
    role = Role.NEXT if beside else Role.LIVE
    settings, stop = _run_settings(), _stop_on_signals()
    if beside:
        check_not_fixed(settings)
    beats = {(name := role.program(spec.name)): settings.heartbeat_file(name) for spec in specs}
    with (
        health_served(health_port, [*beats.values()], SystemClock()),
        ended_if_stalled(beats, settings, SystemClock()),
        aliases_kept([spec for spec in specs if spec.has_generations and role is Role.LIVE], settings),
    ):
        from storekeeper.engine.driver.process import run_apps  # noqa: PLC0415 (loads Spark)
        from storekeeper.generations.run import run_of  # noqa: PLC0415 (loads Spark)

        run_apps(specs, settings, SystemClock(), stop, partial(run_of, role=role))


def _run_settings() -> AppSettings:
    """The settings of a stream, whose run directory is made."""
    settings = AppSettings()
    settings.make_run_dir()
    return settings


def _stop_on_signals() -> threading.Event:
    """An event that TERM and INT set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
