"""Commands of the quality gate: its decisions, and what becomes of quarantined batches.

Delta and Great Expectations are loaded when a command needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import structlog
import typer

from storekeeper.apps.priority import begin_job
from storekeeper.apps.registry import gated_tables, stores
from storekeeper.cli.output import (
    AnswerOption,
    AnswerOutput,
    ListOption,
    ListOutput,
    command_group,
    write_answer,
    write_rows,
)
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.lease import Lease, job_held, job_lease
from storekeeper.errors import InvalidArgumentError
from storekeeper.generations.live import live_store
from storekeeper.program import ExitCode
from storekeeper.quality.gate import no_session
from storekeeper.quality.resolution import Action, Resolution
from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.verdict import WAIVABLE, Status, Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from storekeeper.quality.quarantine import Gate, Quarantine

quarantine_commands = command_group("Show, release or discard quarantined batches.")
_log = structlog.get_logger(__name__)

TableName = Annotated[str, typer.Argument(metavar="TABLE", help="The table's name, or a store's.")]
BatchName = Annotated[str, typer.Argument(metavar="BATCH", help="The batch's name, such as 12-14.")]
By = Annotated[str, typer.Option("--by", help="Who decides; it is recorded.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is recorded.")]


def check(
    table: TableName,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show which staged rows it would check.")] = False,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Check the staged rows of a table, and publish them.

    For a store its newest snapshot is checked. If nothing is new, the last verdict is repeated. Exit code 4: the batch
    is quarantined, and nobody has released or discarded it.

    Example: storekeeper check hadoop_export
    """
    begin_job()
    settings = QualitySettings.of_platform()
    if dry_run:
        write_answer({"table": table, "waiting": _waiting(table, settings)}, output)
        return
    with _gating(table, settings) as (gate, quarantine):
        batch = gate.pending()
        verdict = gate.last_verdict() if batch is None else gate.decide(batch)
        resolution = None if verdict is None or verdict.passed else quarantine.resolution_of(verdict)
    if verdict is None:
        nothing: dict[str, Any] = {"table": table, "passed": None, "status": "nothing_to_check", "reasons": []}
        write_answer({**nothing, "new": False, "published": False}, output)
        return
    _log.info("decided", table=table, status=verdict.status, batch=verdict.batch, rows=verdict.rows)
    docs = settings.data_docs_dir(table) / "index.html"
    new = batch is not None
    published = new and verdict.status is Status.PUBLISHED
    more = {"new": new, "published": published, "data_docs": str(docs)}
    brief = _summary_of_check(verdict, resolution) | {"new": new, "data_docs": str(docs)}
    write_answer({**_report(verdict, resolution), **more}, output, brief)
    if not verdict.passed and resolution is None:
        raise typer.Exit(ExitCode.FINDING)


def _waiting(table: str, settings: QualitySettings) -> dict[str, Any] | None:
    if table not in gated_tables():
        msg = f"no app stages rows for {table[:140]!r}: choose one of {', '.join(gated_tables()) or 'none'}"
        raise InvalidArgumentError(msg)
    from storekeeper.quality.table_gate import waiting_of  # noqa: PLC0415 (loads Delta)

    staged = waiting_of(table, settings, SystemClock())
    return None if staged is None else asdict(staged)


@quarantine_commands.command("show")
def show_batches(
    table: Annotated[str | None, typer.Argument(help="The table's name, or a store's; all without it.")] = None,
    batch: Annotated[str | None, typer.Argument(help="A batch's name, such as 12-14; all without it.")] = None,
    check_again: Annotated[
        bool, typer.Option("--check-again", help="Also check the batch by the current rules and settings.")
    ] = False,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """Show quarantined batches: why, and what was decided.

    Example: storekeeper quarantine show hadoop_export 12-14 --check-again
    """
    begin_job()
    settings = QualitySettings.of_platform()
    if table is not None and batch is not None:
        _show_batch(table, batch, settings, output, check_again=check_again)
        return
    if check_again:
        raise typer.BadParameter("needs a table and a batch", param_hint="--check-again")
    checked = [name for name in _checked_names() if settings.verdict_dir(name).exists()]
    named = checked if table is None else [_known(table)]
    rows = [_summary(*each) for name in named for each in _quarantine_of(name, settings).batches()]
    write_rows(rows if output is ListOutput.JSON else map(_in_words, rows), output)


def _show_batch(table: str, batch: str, settings: QualitySettings, output: ListOutput, *, check_again: bool) -> None:
    summary = _summary(*_quarantine_of(table, settings).find(batch))
    if check_again:
        with _gating(table, settings) as (_, quarantine):
            outcomes = quarantine.check_again(batch)
        summary["broken_now"] = [
            {"rule": outcome.rule, "reason": outcome.reason, "waivable": outcome.rule in WAIVABLE}
            for outcome in outcomes
            if not outcome.passed
        ]
    if output is ListOutput.CSV:
        write_rows([_in_words(summary)], output)
    else:
        write_answer(summary, AnswerOutput(output))


@quarantine_commands.command("release")
def release_batch(
    table: TableName,
    batch: BatchName,
    by: By,
    reason: Reason,
    *,
    accept: Annotated[
        str, typer.Option(metavar="RULES", help=f"Rules that it may break, comma-separated, of: {', '.join(WAIVABLE)}.")
    ] = "",
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Check a batch again and publish it.

    A store's snapshot stays where it is, and counts as good. Exit code 5: it breaks a rule that isn't accepted.

    Example: storekeeper quarantine release rewards 7-7 --by me --reason "..."
    """
    begin_job()
    from storekeeper.quality.quarantine import Decision  # noqa: PLC0415 (loads Delta)

    decision = Decision(by, reason, tuple(filter(None, accept.split(","))))
    with _gating(table, QualitySettings.of_platform()) as (_, quarantine):
        _resolved(quarantine.release(batch, decision), output)


@quarantine_commands.command("discard")
def discard_batch(
    table: TableName, batch: BatchName, by: By, reason: Reason, output: AnswerOption = AnswerOutput.TABLE
) -> None:
    """Never publish a batch.

    Example: storekeeper quarantine discard rewards 7-7 --by me --reason "..."
    """
    begin_job()
    from storekeeper.quality.quarantine import Decision  # noqa: PLC0415 (loads Delta)

    with _gating(table, QualitySettings.of_platform()) as (_, quarantine):
        _resolved(quarantine.discard(batch, Decision(by, reason)), output)


def _resolved(resolution: Resolution, output: AnswerOutput) -> None:
    _log.info("resolved", batch=resolution.batch, action=resolution.action, by=resolution.by, rows=resolution.rows)
    published = resolution.action is Action.RELEASED and resolution.table in gated_tables()
    write_answer({**orjson.loads(resolution.to_json()), "published": published}, output)


def _checked_names() -> list[str]:
    """The tables and stores that there are checks of."""
    return [*gated_tables(), *stores()]


@contextmanager
def _gating(table: str, settings: QualitySettings) -> Iterator[tuple[Gate, Quarantine]]:
    """The gate of a table and its quarantined batches, for the one who holds the lease. Spark starts at its first use.

    Raises:
        InvalidArgumentError: there is no such table or store.
    """
    with job_held(_known(table), "quality", settings) as lease, ExitStack() as stack:
        gate = _gate(table, settings, cache(lambda: _session(job_lease(table, "quality"), settings, lease, stack)))
        yield gate, _quarantine(table, gate, settings)


def _quarantine_of(table: str, settings: QualitySettings) -> Quarantine:
    """The quarantined batches of a table, for one who only reads."""
    return _quarantine(table, _gate(_known(table), settings, no_session), settings)


def _known(table: str) -> str:
    if table not in _checked_names():
        msg = f"there are no checks of a table {table[:140]!r}: choose one of {', '.join(_checked_names())}"
        raise InvalidArgumentError(msg)
    return table


def _gate(table: str, settings: QualitySettings, spark: Callable[[], SparkSession]) -> Gate:
    if table in gated_tables():
        from storekeeper.quality.table_gate import TableGate  # noqa: PLC0415 (loads Delta)

        return TableGate(gated_tables()[table], settings, SystemClock(), spark)
    from storekeeper.quality.snapshot_gate import SnapshotGate  # noqa: PLC0415 (loads Delta)

    return SnapshotGate(live_store(table, settings)[0], settings, SystemClock())


def _quarantine(table: str, gate: Gate, settings: QualitySettings) -> Quarantine:
    from storekeeper.quality.quarantine import Quarantine  # noqa: PLC0415 (loads Delta)

    return Quarantine(table, gate, settings, SystemClock())


def _session(job: str, settings: QualitySettings, lease: Lease, stack: ExitStack) -> SparkSession:
    from storekeeper.engine.runtime.session import running_session  # noqa: PLC0415 (only some commands need a JVM)

    return stack.enter_context(running_session(job, settings, [lease]))


def _summary(verdict: Verdict, resolution: Resolution | None) -> dict[str, Any]:
    return {
        "table": verdict.table,
        "batch": verdict.batch,
        "rows": verdict.rows,
        "decided_at_ms": verdict.decided_at_ms,
        "reasons": verdict.reasons,
        "resolution": None if resolution is None else orjson.loads(resolution.to_json()),
    }


def _summary_of_check(verdict: Verdict, resolution: Resolution | None) -> dict[str, Any]:
    """A verdict for people: what was not met. Data Docs have each expectation."""
    shown = {key: value for key, value in _summary(verdict, resolution).items() if value is not None}
    met = sum(outcome.passed for outcome in verdict.outcomes)
    counts = {"warnings": verdict.warnings, "expectations_met": f"{met} of {len(verdict.outcomes)}"}
    return {"status": verdict.status, "reasons": verdict.reasons, **shown, **counts}


def _in_words(summary: dict[str, Any]) -> dict[str, Any]:
    """A quarantined batch as a row for people."""
    decided, became = datetime.fromtimestamp(summary["decided_at_ms"] / 1000, UTC), summary["resolution"]
    return {
        "table": summary["table"],
        "batch": summary["batch"],
        "rows": summary["rows"],
        "decided": decided.strftime("%Y-%m-%d %H:%M UTC"),
        "what it breaks": "\n".join(summary["reasons"]),
        "became": "" if became is None else f"{became['action']} by {became['by']}: {became['reason']}",
    }


def _report(verdict: Verdict, resolution: Resolution | None) -> dict[str, Any]:
    became = {} if resolution is None else {"resolution": orjson.loads(resolution.to_json())}
    return {**orjson.loads(verdict.to_json()), **became, "batch": verdict.batch}
