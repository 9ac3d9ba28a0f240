"""Commands of the quality gate: its decisions, and what becomes of quarantined batches.

Delta and Great Expectations are loaded when a command needs them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import structlog
import typer

from quality.line_topic import KafkaLineTopic
from quality.settings import QualitySettings
from quality.verdict import WAIVABLE, Verdict
from spark_apps.generations.live import live_store
from spark_apps.priority import begin_job
from spark_apps.runtime.lease import Lease
from state.cli.output import AnswerOption, AnswerOutput, ListOption, ListOutput, write_answer, write_rows
from state.clock import SystemClock
from state.maintenance.check_verdict import put_verdict
from state.program import ExitCode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quality.gate import Batch, Gate
    from quality.quarantine import Quarantine
    from quality.resolution import Resolution

_JOB = "quality-hadoop_export"

quarantine_commands = typer.Typer(
    help="Show, release or discard what is held back.", no_args_is_help=True, rich_markup_mode=None
)
_log = structlog.get_logger(__name__)

BatchName = Annotated[str, typer.Argument(metavar="BATCH", help="The batch's name, such as 12-14.")]
By = Annotated[str, typer.Option("--by", help="Who decides; it is recorded.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is recorded.")]


def check_export(output: AnswerOption = AnswerOutput.TABLE) -> None:
    """Check what was staged of the masked export, and publish it. Example: storekeeper check export.

    If nothing is new, the last verdict is repeated. Exit code 4: the batch is quarantined, and nobody has released or
    discarded it.
    """
    begin_job()
    settings = QualitySettings.of_platform()
    from quality.gate import TABLE, Gate  # noqa: PLC0415 (loads Delta)

    with _lease(settings) as lease:
        gate, quarantine = Gate(settings, SystemClock(), _topic(settings)), _quarantine(settings)
        batch = gate.pending()
        verdict = gate.last_verdict() if batch is None else _decide(gate, batch, settings, lease)
        resolution = None if verdict is None or verdict.passed else quarantine.resolution_of(verdict)
    if verdict is None:
        write_answer({"table": TABLE, "passed": None, "status": "nothing_staged", "reasons": [], "new": False}, output)
        return
    docs = settings.data_docs_dir(TABLE) / "index.html"
    write_answer({**_report(verdict, resolution), "new": batch is not None, "data_docs": str(docs)}, output)
    if not verdict.passed and resolution is None:
        raise typer.Exit(ExitCode.FINDING)


def check_snapshot(
    store: Annotated[str, typer.Argument(help="The store's name.")], output: AnswerOption = AnswerOutput.TABLE
) -> None:
    """Check the newest snapshot of a store against what is expected. Example: storekeeper check snapshot rewards.

    Exit code 4: an expectation isn't met.
    """
    begin_job()
    from quality import snapshot_check  # noqa: PLC0415 (loads Great Expectations)

    settings = QualitySettings.of_platform()
    spec, _ = live_store(store, settings)
    now_ms = SystemClock().now_ms()
    verdict = snapshot_check.check_snapshot(spec, settings.delta_table(spec.table_name), now_ms, settings)
    if verdict is None:
        write_answer({"check": snapshot_check.CHECK, "subject": store, "passed": None, "reasons": []}, output)
        return
    put_verdict(settings.run_dir, verdict)
    write_answer(verdict.as_dict(), output)
    if not verdict.passed:
        raise typer.Exit(ExitCode.FINDING)


@quarantine_commands.command("list")
def list_batches(output: ListOption = ListOutput.TABLE) -> None:
    """List all quarantined batches and what became of them. Example: storekeeper quarantine list."""
    found = _quarantine(QualitySettings.of_platform()).batches()
    rows = (_summary(verdict, resolution) for verdict, resolution in found)
    write_rows(rows if output is ListOutput.JSON else map(_in_words, rows), output)


@quarantine_commands.command("show")
def show_batch(
    batch: BatchName,
    check_again: Annotated[bool, typer.Option("--check-again", help="Also by the rules and settings of now.")] = False,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Show why a batch was quarantined. Example: storekeeper quarantine show 12-14 --check-again."""
    begin_job()
    settings = QualitySettings.of_platform()
    summary = _summary(*_quarantine(settings).find(batch))
    if check_again:
        with _lease(settings) as lease, _session(settings, lease) as spark:
            outcomes = _quarantine(settings, _topic(settings)).check_again(spark, batch)
        summary["broken_now"] = [
            {"rule": outcome.rule, "reason": outcome.reason, "waivable": outcome.rule in WAIVABLE}
            for outcome in outcomes
            if not outcome.passed
        ]
    write_answer(summary, output)


@quarantine_commands.command("release")
def release_batch(
    batch: BatchName,
    by: By,
    reason: Reason,
    accept: Annotated[
        str, typer.Option(metavar="RULES", help=f"Rules that it may break, comma-separated, of: {', '.join(WAIVABLE)}.")
    ] = "",
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Check a batch again and publish it. Example: storekeeper quarantine release 12-14 --by meera --reason "...".

    Exit code 5: it breaks a rule that isn't accepted.
    """
    begin_job()
    settings = QualitySettings.of_platform()
    from quality.quarantine import Decision  # noqa: PLC0415 (loads Delta)

    decision = Decision(by, reason, tuple(filter(None, accept.split(","))))
    with _lease(settings) as lease:
        quarantine = _quarantine(settings, _topic(settings))
        quarantine.find(batch)  # fails before a JVM is started
        with _session(settings, lease) as spark:
            resolution = quarantine.release(spark, batch, decision)
    _resolved(resolution, output)


@quarantine_commands.command("discard")
def discard_batch(batch: BatchName, by: By, reason: Reason, output: AnswerOption = AnswerOutput.TABLE) -> None:
    """Decide that a batch is never published. Example: storekeeper quarantine discard 12-14 --by me --reason "..."."""
    begin_job()
    settings = QualitySettings.of_platform()
    from quality.quarantine import Decision  # noqa: PLC0415 (loads Delta)

    with _lease(settings):
        _resolved(_quarantine(settings).discard(batch, Decision(by, reason)), output)


def _resolved(resolution: Resolution, output: AnswerOutput) -> None:
    _log.info("resolved", batch=resolution.batch, action=resolution.action, by=resolution.by, rows=resolution.rows)
    write_answer(orjson.loads(resolution.to_json()), output)


@contextmanager
def _lease(settings: QualitySettings) -> Iterator[Lease]:
    lease = Lease(settings.lease_file(_JOB), clock=SystemClock(), wait=threading.Event().wait)
    lease.acquire(timeout_s=0)
    with lease:
        yield lease


def _quarantine(settings: QualitySettings, topic: KafkaLineTopic | None = None) -> Quarantine:
    from quality.quarantine import Quarantine  # noqa: PLC0415 (loads Delta)

    return Quarantine(settings, SystemClock(), topic)


def _topic(settings: QualitySettings) -> KafkaLineTopic | None:
    return KafkaLineTopic(settings) if settings.quality_reconcile else None


@contextmanager
def _session(settings: QualitySettings, lease: Lease) -> Iterator[SparkSession]:
    from spark_apps.runtime.session import jvm_pid, start_session, stop_session  # noqa: PLC0415 (only some commands need a JVM)

    spark = start_session(_JOB, settings)
    try:
        if (pid := jvm_pid(spark)) is not None:
            lease.record_jvm(pid)
        yield spark
    finally:
        stop_session(spark)


def _decide(gate: Gate, batch: Batch, settings: QualitySettings, lease: Lease) -> Verdict:
    gate.last_verdict()  # completes the archive before a verdict is added
    with _session(settings, lease) as spark:
        verdict = gate.decide(spark, batch)
    _log.info("decided", status=verdict.status, first=batch.first_version, last=batch.last_version, rows=verdict.rows)
    return verdict


def _summary(verdict: Verdict, resolution: Resolution | None) -> dict[str, Any]:
    return {
        "batch": verdict.batch,
        "rows": verdict.rows,
        "decided_at_ms": verdict.decided_at_ms,
        "reasons": verdict.reasons,
        "resolution": None if resolution is None else orjson.loads(resolution.to_json()),
    }


def _in_words(summary: dict[str, Any]) -> dict[str, Any]:
    """A quarantined batch as a row for people."""
    decided, became = datetime.fromtimestamp(summary["decided_at_ms"] / 1000, UTC), summary["resolution"]
    return {
        "batch": summary["batch"],
        "rows": summary["rows"],
        "decided": decided.strftime("%Y-%m-%d %H:%M UTC"),
        "what it breaks": "\n".join(summary["reasons"]),
        "became": "" if became is None else f"{became['action']} by {became['by']}: {became['reason']}",
    }


def _report(verdict: Verdict, resolution: Resolution | None) -> dict[str, Any]:
    became = {} if resolution is None else {"resolution": orjson.loads(resolution.to_json())}
    return {**orjson.loads(verdict.to_json()), **became, "batch": verdict.batch}
