"""`storekeeper cleanup`: previewing, doing and undoing the clean-up of a store. Data goes to standard output."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_apps.generations.live import journal_of, live_store
from spark_apps.maintenance.cleanable import check_alone, check_cleanable
from spark_apps.settings import AppSettings
from state.cli.output import write_value
from state.clock import SystemClock
from state.maintenance.check_verdict import CheckVerdict, put_verdict
from state.maintenance.cleanup_plan import CleanupOptions
from state.maintenance.expiry import DAY_MS

if TYPE_CHECKING:
    from state.maintenance.cleanup import Cleanup, CleanupReport

commands = typer.Typer(no_args_is_help=True, help="Delete what is too old in a store, and bring it back.")

Store = Annotated[str, typer.Argument(help="The store's name.")]
CleanupId = Annotated[str, typer.Argument(help="The clean-up's id, as `preview` tells it.")]


@commands.command()
def preview(  # noqa: PLR0917 (a command line names its options)
    store: Store,
    ttl_days: Annotated[float, typer.Option(help="Rows that were not written for so long are expired.")],
    canary_share: Annotated[float, typer.Option(help="The share of them that is deleted first.")] = 0.01,
    max_came_back_share: Annotated[float, typer.Option(help="Stop if more of the canary comes back.")] = 0.02,
    rate: Annotated[float, typer.Option(help="At most so many deletions a second.")] = 2000,
    undo_days: Annotated[float, typer.Option(help="For how long it can be undone.")] = 7,
) -> None:
    """Tell what would be deleted, and keep that as a plan. Example: storekeeper cleanup preview prices --ttl-days 9."""
    spec, _ = live_store(store, AppSettings.of_platform())
    check_cleanable(spec)
    _check_alone(store)
    options = CleanupOptions(
        round(ttl_days * DAY_MS), canary_share, max_came_back_share, rate, round(undo_days * DAY_MS)
    )
    plan = _cleanup(store).preview(options)
    if sys.stdout.isatty():
        typer.echo(f"{plan.as_text()}\n\nTo delete them: storekeeper cleanup run {store} {plan.cleanup_id}")
    else:
        _tell({**plan.as_dict(), "text": plan.as_text()})


@commands.command()
def run(
    store: Store,
    cleanup_id: CleanupId,
    *,
    only_canary: Annotated[bool, typer.Option("--only-canary", help="Delete the first share and stop there.")] = False,
) -> None:
    """Archive what was previewed, then delete it; go on with one that was ended on its way."""
    _check_alone(store)
    cleanup = _cleanup(store)
    plan = cleanup.plan(cleanup_id)
    cleanup.archive(plan)
    if plan.options.canary_share:
        report = cleanup.delete(plan, only_canary=True)
    if not only_canary:
        report = cleanup.delete(plan)
    elif not plan.options.canary_share:
        report = cleanup.report(plan)
    _tell_report(report)


@commands.command()
def undo(store: Store, cleanup_id: CleanupId) -> None:
    """Bring back what was deleted, except what was written since."""
    cleanup = _cleanup(store)
    _tell_report(cleanup.undo(cleanup.plan(cleanup_id)))


@commands.command()
def report(store: Store, cleanup_id: CleanupId) -> None:
    """Tell from the changelog what a clean-up has done."""
    cleanup = _cleanup(store)
    _tell_report(cleanup.report(cleanup.plan(cleanup_id)))


@commands.command()
def forget(store: Store) -> None:
    """Delete the archives of clean-ups that can't be undone any more."""
    _tell({"store": store, "forgotten": _cleanup(store).forget_old()})


def _cleanup(store: str) -> Cleanup:
    from state.maintenance.cleanup import Cleanup  # noqa: PLC0415 (loads clients of Kafka and Parquet)

    settings = AppSettings.of_platform()
    spec, _ = live_store(store, settings)
    return Cleanup(
        settings.kafka_bootstrap,
        settings.run_dir / "cleanups" / store,
        store,
        spec.changelog_topic,
        clock=SystemClock(),
        wait=threading.Event().wait,
    )


def _check_alone(store: str) -> None:
    spec, _ = live_store(store, AppSettings.of_platform())
    check_alone(spec, journal_of(spec, AppSettings.of_platform()))


def _tell_report(report: CleanupReport) -> None:
    settings = AppSettings.of_platform()
    verdict = CheckVerdict(
        "cleanup", report.store, report.holds, (), SystemClock().now_ms(), {"report": report.as_dict()}
    )
    put_verdict(settings.run_dir, verdict)
    _tell(report.as_dict())


def _tell(content: dict[str, Any]) -> None:
    write_value(content)
