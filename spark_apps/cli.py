"""`python -m spark_apps`: what supervisor and Airflow start.

Results go to stdout, logs to stderr. Exit codes: 0 done or stopped, 1 failed, 75 try again later, 78 wrong settings or
a damaged table (a restart is of no use before something is changed).
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import Annotated, Any

import orjson
import structlog
import typer
from pydantic import ValidationError

from spark_apps.app_log import configure_logging
from spark_apps.generations.commands import generation_commands
from spark_apps.generations.desired_state import Role
from spark_apps.generations.live import live_store
from spark_apps.registry import app_named
from spark_apps.runtime.scale import scaled
from spark_apps.settings import AppSettings
from state.clock import SystemClock
from state.errors import ConfigurationError, RetriableError, SnapshotDamagedError, StateError

EXIT_FAILED = 1
EXIT_TRY_AGAIN = 75
EXIT_CONFIGURATION = 78

cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
cli.add_typer(generation_commands, name="generation")
_log = structlog.get_logger(__name__)


@cli.callback()
def spark_apps() -> None:
    """Run Storekeeper's Spark apps and jobs."""


@cli.command()
def run(
    apps: Annotated[list[str], typer.Argument(help="The app's name; or several, which share one driver.")],
) -> None:
    """Run an app until TERM, which lets its running batch finish. If one of several fails, all stop."""
    specs = [app_named(app) for app in apps]
    settings, stop = _settings_of_run(), _stop_on_signals()
    # Imported here because it loads Spark.
    from spark_apps.runtime.driver import run_apps  # noqa: PLC0415

    run_apps(specs, settings, SystemClock(), stop)


@generation_commands.command("run")
def run_next(app: Annotated[str, typer.Argument(help="The app's name.")]) -> None:
    """Run the generation that is not live, on its way or standing by, until TERM; ends if there is none."""
    spec = app_named(app)
    settings = scaled(spec.settings(_settings_of_run()), spec.name)
    from spark_apps.generations.run import GenerationRun  # noqa: PLC0415 (loads Spark)

    GenerationRun(spec, settings, SystemClock(), _stop_on_signals(), Role.NEXT)()


@cli.command()
def check(app: Annotated[str, typer.Argument(help="The app's name.")]) -> None:
    """Say whether this code could run an app in place of the one that runs; the last line is a JSON object."""
    spec = app_named(app)
    from spark_apps.planning.upgrade_check import check_upgrade  # noqa: PLC0415 (imports what the app runs, and so Spark)

    _answer({"app": spec.name, "stores": check_upgrade(spec, spec.settings(AppSettings.of_platform()), SystemClock())})


@cli.command()
def snapshot(stores: Annotated[list[str], typer.Argument(help="The store's name; or several, of one app.")]) -> None:
    """Bring a store's Delta table up to its app's last committed batch; the last line is a JSON summary.

    Of several stores, the tables of each: at the end of the same batch.
    """
    base = AppSettings.of_platform()
    found = [live_store(store, base) for store in stores]
    specs, settings = [spec for spec, _ in found], found[0][1]
    if len({spec.app for spec in specs}) > 1:
        msg = f"{' and '.join(stores)} are stores of several apps, which have batches of their own: name those of one"
        raise ConfigurationError(msg)
    from spark_apps.snapshot.job import take_snapshots  # noqa: PLC0415 (loads Spark)

    summaries = take_snapshots(specs, settings, SystemClock())
    taken = {spec.name: summary.as_dict() for spec, summary in zip(specs, summaries, strict=True)}
    _answer(taken[stores[0]] if [*taken] == stores[:1] else {"store": ",".join(stores), "stores": taken})


def _settings_of_run() -> AppSettings:
    settings = AppSettings()
    settings.make_run_dir()
    return settings


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _answer(content: dict[str, Any]) -> None:
    typer.echo(orjson.dumps(content, option=orjson.OPT_SORT_KEYS).decode())


def main() -> None:
    """Runs a command and turns its errors into one sentence and an exit code."""
    configure_logging()
    try:
        cli()
    except ValidationError as error:
        for problem in error.errors(include_input=False, include_url=False):
            name = "_".join(map(str, problem["loc"])).upper()
            _log.error("configuration_error", setting=f"STOREKEEPER_{name}", error=problem["msg"])
        sys.exit(EXIT_CONFIGURATION)
    except StateError as error:
        _log.error("failed", kind=type(error).__name__, error=str(error))
        sys.exit(exit_code(error))


def exit_code(error: StateError) -> int:
    """The exit code of a process that ends with `error`."""
    if isinstance(error, ConfigurationError | SnapshotDamagedError):
        return EXIT_CONFIGURATION
    return EXIT_TRY_AGAIN if isinstance(error, RetriableError) else EXIT_FAILED
