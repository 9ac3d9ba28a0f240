"""`storekeeper cleanup`: previewing, doing and undoing the clean-up of a store. Data goes to standard output."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from storekeeper.apps.priority import begin_job
from storekeeper.apps.settings import AppSettings
from storekeeper.cleanup.cleanable import check_alone, check_cleanable
from storekeeper.cleanup.cleanup_plan import CleanupOptions
from storekeeper.cli.output import AnswerOption, AnswerOutput, say, write_answer, write_markdown
from storekeeper.clock import DAY_MS, SystemClock
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint, TimesBesideBatches
from storekeeper.engine.runtime.lease import job_held
from storekeeper.errors import InvalidArgumentError
from storekeeper.generations.live import journal_of, live_store
from storekeeper.verification.check_verdict import CheckVerdict, put_verdict

if TYPE_CHECKING:
    from storekeeper.cleanup.cleanup import Cleanup, CleanupReport
    from storekeeper.cleanup.folder import CleanupFolder

commands = typer.Typer(
    help="Delete old rows of a store, and restore them.", no_args_is_help=True, rich_markup_mode=None
)

Store = Annotated[str, typer.Argument(help="The store's name.")]
CleanupId = Annotated[str, typer.Argument(help="The clean-up's id, which `preview` shows.")]


@commands.command()
def preview(  # noqa: PLR0917 (a command line names its options)
    store: Store,
    ttl_days: Annotated[float, typer.Option(help="Rows not written for this many days are expired.")],
    canary_share: Annotated[float, typer.Option(help="The share of them that is deleted first.")] = 0.01,
    max_came_back_share: Annotated[float, typer.Option(help="Stop if more of the canary comes back.")] = 0.02,
    rate: Annotated[float, typer.Option(help="Deletions a second at most.")] = 2000,
    undo_days: Annotated[float, typer.Option(help="Days for which it can be undone.")] = 7,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Show the rows that would be deleted, and save a plan.

    Example: storekeeper cleanup preview prices --ttl-days 9
    """
    begin_job()
    _check(store)
    if not (math.isfinite(ttl_days) and math.isfinite(undo_days)):
        raise InvalidArgumentError("days are a number")
    options = CleanupOptions(
        round(ttl_days * DAY_MS), canary_share, max_came_back_share, rate, round(undo_days * DAY_MS)
    )
    plan = _cleanup(store).preview(options)
    if output is AnswerOutput.JSON:
        write_answer({**plan.as_dict(), "text": plan.as_text()}, output)
    else:
        write_markdown(plan.as_text())
        say(f"To delete them: storekeeper cleanup run {store} {plan.cleanup_id}")


@commands.command()
def run(
    store: Store,
    cleanup_id: CleanupId,
    *,
    only_canary: Annotated[bool, typer.Option("--only-canary", help="Delete the first share and stop there.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Delete nothing; show from the changelog what became of the rows.")
    ] = False,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Archive the previewed rows, then delete them.

    An interrupted clean-up goes on where it was. Of two at once on a store, the second waits.

    Example: storekeeper cleanup run prices 20260131T180000000Z
    """
    begin_job()
    if dry_run:
        _show_report(_cleanup(store).report(_folder(store).plan(cleanup_id)), output)
        return
    _check(store)
    cleanup, plan = _cleanup(store), _folder(store).plan(cleanup_id)
    with job_held(store, "cleanup", AppSettings.of_platform()):
        cleanup.archive(plan)
        if plan.options.canary_share:
            report = cleanup.delete(plan, only_canary=True)
        if not only_canary:
            report = cleanup.delete(plan)
        elif not plan.options.canary_share:
            report = cleanup.report(plan)
    _show_report(report, output)


@commands.command()
def undo(store: Store, cleanup_id: CleanupId, output: AnswerOption = AnswerOutput.TABLE) -> None:
    """Restore the deleted rows.

    Rows written since stay as they are.

    Example: storekeeper cleanup undo prices 20260131T180000000Z
    """
    begin_job()
    with job_held(store, "cleanup", AppSettings.of_platform()):
        report = _cleanup(store).undo(_folder(store).plan(cleanup_id))
    _show_report(report, output)


def _cleanup(store: str) -> Cleanup:
    from storekeeper.cleanup.cleanup import Cleanup  # noqa: PLC0415 (loads clients of Kafka and Parquet)

    settings = AppSettings.of_platform()
    spec, live = live_store(store, settings)
    clock = SystemClock()
    return Cleanup(
        settings.kafka,
        _folder(store),
        store,
        spec.changelog_topic,
        clock=clock,
        wait=threading.Event().wait,
        times=TimesBesideBatches(BatchCheckpoint(live.checkpoint_dir(spec.app)), clock),
    )


def _folder(store: str) -> CleanupFolder:
    from storekeeper.cleanup.folder import CleanupFolder  # noqa: PLC0415 (loads Parquet)

    return CleanupFolder(AppSettings.of_platform().durable / "cleanups" / store, store)


def _check(store: str) -> None:
    """Checks that rows of the store may be deleted, and are then gone. Raises as the two checks."""
    settings = AppSettings.of_platform()
    spec, _ = live_store(store, settings)
    check_cleanable(spec)
    check_alone(spec, journal_of(spec, settings))


def _show_report(report: CleanupReport, output: AnswerOutput) -> None:
    settings = AppSettings.of_platform()
    verdict = CheckVerdict(
        "cleanup", report.store, report.holds, (), SystemClock().now_ms(), {"report": report.as_dict()}
    )
    put_verdict(settings.run_dir, verdict)
    write_answer(report.as_dict(), output)
