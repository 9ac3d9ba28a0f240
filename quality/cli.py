"""`python -m quality`: decisions of the gate, and what becomes of quarantined batches.

    check hadoop_export                                    decide on what was staged since the last decision
    list                                                   all quarantined batches
    show BATCH [--check-again]                             why one was quarantined
    release BATCH --by WHO --reason WHY [--accept RULES]    check it again and publish it
    discard BATCH --by WHO --reason WHY                    never publish it

The answer is JSON on standard output: the last line, or indented on a terminal. All else goes to standard error.
Exit codes: 0 done, published or nothing staged yet, 4 quarantined or refused; without a decision 1 failed, 75 try again
later, 78 wrong settings. If there is nothing new, `check` repeats the last verdict, with `"new": false`, and Spark
isn't started; a quarantined batch that was released or discarded since is no failure any more.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import orjson
import pydantic
import structlog

from quality.errors import ReleaseRefusedError
from quality.gate import TABLE, Batch, Gate
from quality.line_topic import KafkaLineTopic
from quality.quarantine import Decision, Quarantine
from quality.resolution import Resolution
from quality.settings import QualitySettings
from quality.verdict import WAIVABLE, Verdict
from spark_apps.cli import EXIT_CONFIGURATION, exit_code
from spark_apps.runtime.lease import Lease
from state.cli.output import write_value
from state.clock import SystemClock
from state.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_QUARANTINED = 4
_JOB = "quality-hadoop_export"

_log = structlog.get_logger(__name__)


def main(arguments: list[str]) -> int:
    """Runs the command and returns its exit code."""
    chosen = _parser().parse_args([argument for argument in arguments if argument])
    try:
        return int(chosen.run(chosen, QualitySettings.of_platform()))
    except pydantic.ValidationError as error:
        for problem in error.errors(include_input=False, include_url=False):
            name = "_".join(map(str, problem["loc"])).upper()
            _log.error("configuration_error", setting=f"STOREKEEPER_{name}", error=problem["msg"])
        return EXIT_CONFIGURATION
    except ReleaseRefusedError as error:
        _tell({"refused": True, "reasons": [str(error)]})
        _log.error("refused", error=str(error))
        return EXIT_QUARANTINED
    except StateError as error:
        _log.error("no_decision", kind=type(error).__name__, error=str(error))
        return exit_code(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m quality", description="Checks staged data and publishes it.")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="decide on what was staged since the last decision")
    check.add_argument("table", choices=[TABLE])
    check.set_defaults(run=_check)
    listing = commands.add_parser("list", help="all quarantined batches and what became of them")
    listing.set_defaults(run=_list)
    show = commands.add_parser("show", help="why a batch was quarantined")
    show.add_argument("--check-again", action="store_true", help="also by the rules and settings of now")
    show.set_defaults(run=_show)
    release = commands.add_parser("release", help="check a quarantined batch again and publish it")
    release.add_argument("--accept", default="", metavar="RULES", help="let it off these rules, comma-separated")
    release.set_defaults(run=_release)
    discard = commands.add_parser("discard", help="decide that a quarantined batch is never published")
    discard.set_defaults(run=_discard)
    for command in (show, release, discard):
        command.add_argument("batch", help="its name, such as 12-14")
    for command in (release, discard):
        command.add_argument("--by", required=True, help="who decides")
        command.add_argument("--reason", required=True, help="why")
    return parser


def _check(_: argparse.Namespace, settings: QualitySettings) -> int:
    clock = SystemClock()
    with _lease(settings) as lease:
        gate, quarantine = Gate(settings, clock, _topic(settings)), Quarantine(settings, clock)
        batch = gate.pending()
        verdict = gate.last_verdict() if batch is None else _decide(gate, batch, settings, lease)
        resolution = None if verdict is None or verdict.passed else quarantine.resolution_of(verdict)
    _tell(_report(verdict, resolution, new=batch is not None))
    return 0 if verdict is None or verdict.passed or resolution is not None else EXIT_QUARANTINED


def _list(_: argparse.Namespace, settings: QualitySettings) -> int:
    batches = Quarantine(settings, SystemClock()).batches()
    _tell({"batches": [_summary(verdict, resolution) for verdict, resolution in batches]})
    return 0


def _show(chosen: argparse.Namespace, settings: QualitySettings) -> int:
    quarantine = Quarantine(settings, SystemClock())
    verdict, resolution = quarantine.find(chosen.batch)
    summary = _summary(verdict, resolution)
    if chosen.check_again:
        with _lease(settings) as lease, _session(settings, lease) as spark:
            outcomes = Quarantine(settings, SystemClock(), _topic(settings)).check_again(spark, chosen.batch)
        summary["broken_now"] = [
            {"rule": outcome.rule, "reason": outcome.reason, "waivable": outcome.rule in WAIVABLE}
            for outcome in outcomes
            if not outcome.passed
        ]
    _tell(summary)
    return 0


def _release(chosen: argparse.Namespace, settings: QualitySettings) -> int:
    decision = Decision(chosen.by, chosen.reason, tuple(rule for rule in chosen.accept.split(",") if rule))
    with _lease(settings) as lease:
        quarantine = Quarantine(settings, SystemClock(), _topic(settings))
        quarantine.find(chosen.batch)  # fails before a JVM is started
        with _session(settings, lease) as spark:
            resolution = quarantine.release(spark, chosen.batch, decision)
    return _resolved(resolution)


def _discard(chosen: argparse.Namespace, settings: QualitySettings) -> int:
    with _lease(settings):
        quarantine = Quarantine(settings, SystemClock())
        return _resolved(quarantine.discard(chosen.batch, Decision(chosen.by, chosen.reason)))


def _resolved(resolution: Resolution) -> int:
    _log.info("resolved", batch=resolution.batch, action=resolution.action, by=resolution.by, rows=resolution.rows)
    _tell(orjson.loads(resolution.to_json()))
    return 0


@contextmanager
def _lease(settings: QualitySettings) -> Iterator[Lease]:
    lease = Lease(settings.lease_file(_JOB), clock=SystemClock(), wait=threading.Event().wait)
    lease.acquire(timeout_s=0)
    with lease:
        yield lease


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


def _summary(verdict: Verdict, resolution: Resolution | None) -> dict[str, object]:
    return {
        "batch": verdict.batch,
        "rows": verdict.rows,
        "decided_at_ms": verdict.decided_at_ms,
        "reasons": verdict.reasons,
        "resolution": None if resolution is None else orjson.loads(resolution.to_json()),
    }


def _report(verdict: Verdict | None, resolution: Resolution | None, *, new: bool) -> dict[str, object]:
    if verdict is None:
        return {"table": TABLE, "passed": None, "status": "nothing_staged", "reasons": [], "new": False}
    became = {} if resolution is None else {"resolution": orjson.loads(resolution.to_json())}
    return {**orjson.loads(verdict.to_json()), **became, "batch": verdict.batch, "new": new}


def _tell(content: dict[str, object]) -> None:
    write_value(content)
