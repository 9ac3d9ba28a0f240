"""Commands that run apps, take snapshots and check stores. Spark and Delta are loaded when a command needs them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import typer

from storekeeper.apps.priority import begin_job, begin_stream
from storekeeper.apps.registry import app_named, gated_tables
from storekeeper.apps.settings import AppSettings, SnapshotSettings
from storekeeper.cli.output import AnswerOption, AnswerOutput, write_answer
from storekeeper.clock import SystemClock
from storekeeper.engine.driver.health_server import health_served
from storekeeper.engine.driver.watchdog import ended_if_stalled
from storekeeper.errors import ConfigurationError
from storekeeper.generations.aliases import aliases_kept
from storekeeper.generations.desired_state import Role, check_not_fixed
from storekeeper.generations.live import live_from, live_store, store_in
from storekeeper.program import ExitCode
from storekeeper.verification.check_verdict import CheckVerdict, put_verdict, together

snapshot_commands = typer.Typer(
    help="Write and maintain the Delta tables of stores.", no_args_is_help=True, rich_markup_mode=None
)

Store = Annotated[str, typer.Argument(help="The store's name.")]


def _each_once(names: list[str]) -> list[str]:
    """Names without repetitions: one process can't hold a lease twice."""
    return list(dict.fromkeys(names))


Stores = Annotated[list[str], typer.Argument(help="The stores' names.", callback=_each_once)]


def run(
    apps: Annotated[
        list[str], typer.Argument(help="The app's name; or several, which share one driver.", callback=_each_once)
    ],
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
    specs = [app_named(app) for app in apps]
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


_SHOWN_OF_SNAPSHOT = ("store", "generation", "delta_version", "committed", "row_count", "changed_keys", "duration_ms")


@snapshot_commands.command()
def create(
    stores: Stores,
    *,
    when_due: Annotated[
        bool, typer.Option("--when-due", help="Write tables only if they are an hour behind; histories always go on.")
    ] = False,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Bring tables up to their app's last committed batch.

    Several stores must be of one app. Their tables end at the same batch.

    Example: storekeeper snapshot create rewards
    """
    begin_job()
    base = AppSettings.of_platform()
    live = [live_store(store, base) for store in stores]
    specs, settings = [spec for spec, _ in live], live[0][1]
    if len({spec.app for spec in specs}) > 1:
        msg = f"{' and '.join(stores)} are stores of several apps, which have batches of their own: name those of one"
        raise ConfigurationError(msg)
    from storekeeper.snapshots.job import take_snapshots  # noqa: PLC0415 (loads Delta)

    since = live_from(specs[0], settings)
    summaries = take_snapshots(specs, settings, SystemClock(), live_from=since, when_due=when_due)
    shown = {spec.name: summary.as_dict() for spec, summary in zip(specs, summaries, strict=True)}
    write_answer(
        shown[stores[0]] if len(shown) == 1 else {"store": ",".join(stores), "stores": shown},
        output,
        {"snapshots": [{field: summary[field] for field in _SHOWN_OF_SNAPSHOT} for summary in shown.values()]},
    )


@snapshot_commands.command()
def restore(store: Store, output: AnswerOption = AnswerOutput.TABLE) -> None:
    """Restore a table to its last snapshot.

    For a table that another program has written to. It is Delta's RESTORE: the versions since stay readable. A table
    that is sound is left alone.

    Example: storekeeper snapshot restore rewards
    """
    begin_job()
    from storekeeper.snapshots.table_restore import restored  # noqa: PLC0415 (loads Delta)

    settings = AppSettings.of_platform()
    spec, _ = live_store(store, settings)
    write_answer(restored(spec, lambda manifest: store_in(manifest, spec, settings), settings), output)


@snapshot_commands.command()
def optimize(store: Store, output: AnswerOption = AnswerOutput.TABLE) -> None:
    """Join small files of a table and remove old ones.

    Every promised version stays readable. Archives of the store's clean-ups go once these can't be undone any more.

    Example: storekeeper snapshot optimize rewards
    """
    begin_job()
    from storekeeper.cleanup.folder import CleanupFolder  # noqa: PLC0415 (loads Parquet)
    from storekeeper.snapshots.table_upkeep import optimized  # noqa: PLC0415 (loads Delta)

    settings = SnapshotSettings.of_platform()
    done = optimized(store, settings)
    forgotten = CleanupFolder(settings.durable / "cleanups" / store, store).forget_old(SystemClock().now_ms())
    write_answer({**done, "forgotten_cleanups": forgotten}, output)


def verify(
    stores: Stores,
    repair: Annotated[
        str | None,
        typer.Option(metavar="NODE|APP", help="Set aside the wrong copies of a node or of the app's tasks."),
    ] = None,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Compare changelog, SQL and nodes.

    Every column of the newest snapshot, and every query node, must equal the changelog. Exit code 4: they
    differ; the answer has the first differing keys, masked. The quality gate's tables must be as they were sealed.

    With --repair the holder restores them from the changelog; the app must be stopped. The verdict is that of before.

    Example: storekeeper verify rewards --repair a
    """
    begin_job()
    from storekeeper.verification.gated_tables import verify_table  # noqa: PLC0415 (loads Delta)
    from storekeeper.verification.verify import verify_store  # noqa: PLC0415 (as above)

    def check(name: str, settings: SnapshotSettings) -> CheckVerdict:
        return verify_table(name, settings) if name in gated_tables() else verify_store(name, settings, repair=repair)

    _checked(stores, check, output)


def _checked(
    stores: Sequence[str], check: Callable[[str, SnapshotSettings], CheckVerdict], output: AnswerOutput
) -> None:
    """Saves the verdict on each store, and shows them as one.

    Raises:
        typer.Exit: one doesn't pass. And what `check` raises.
    """
    settings = SnapshotSettings.of_platform()
    verdicts = [check(store, settings) for store in stores]
    for each in verdicts:
        put_verdict(settings.run_dir, each)
    verdict = together(",".join(stores), verdicts)
    write_answer(verdict.as_dict(), output)
    if not verdict.passed:
        raise typer.Exit(ExitCode.FINDING)


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
