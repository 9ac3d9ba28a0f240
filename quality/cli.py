"""`python -m quality check hadoop_export`: one decision of the gate.

The last line on standard output is the verdict as JSON; everything else goes to standard error. Exit codes: 0 published
or nothing staged yet, 4 quarantined; without a decision 1 failed, 75 try again later, 78 wrong settings. Without
anything new the last verdict is told again, with `"new": false`, and Spark isn't started.
"""

from __future__ import annotations

import argparse
import sys
import threading

import orjson
import pydantic
import structlog

from quality.gate import TABLE, Batch, Gate
from quality.settings import QualitySettings
from quality.verdict import Verdict
from spark_apps.cli import EXIT_CONFIGURATION, configure_logging, exit_code
from spark_apps.lease import Lease
from state.clock import SystemClock
from state.errors import StateError

EXIT_QUARANTINED = 4
_JOB = "quality-hadoop_export"

_log = structlog.get_logger(__name__)


def main(arguments: list[str]) -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m quality", description="Checks staged data and publishes it.")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="decide on what was staged since the last decision")
    check.add_argument("table", choices=[TABLE])
    parser.parse_args(arguments)
    configure_logging()
    try:
        return _check(QualitySettings())  # type: ignore[call-arg]
    except pydantic.ValidationError as error:
        for problem in error.errors(include_input=False, include_url=False):
            name = "_".join(map(str, problem["loc"])).upper()
            _log.error("configuration_error", setting=f"STOREKEEPER_{name}", error=problem["msg"])
        return EXIT_CONFIGURATION
    except StateError as error:
        _log.error("no_decision", kind=type(error).__name__, error=str(error))
        return exit_code(error)


def _check(settings: QualitySettings) -> int:
    clock = SystemClock()
    lease = Lease(settings.lease_file(_JOB), clock=clock, wait=threading.Event().wait)
    lease.acquire(timeout_s=0)
    with lease:
        gate = Gate(settings, clock)
        batch = gate.pending()
        verdict = gate.last_verdict() if batch is None else _decide(gate, batch, settings, lease)
    sys.stdout.buffer.write(_report(verdict, new=batch is not None) + b"\n")
    sys.stdout.buffer.flush()
    return 0 if verdict is None or verdict.passed else EXIT_QUARANTINED


def _decide(gate: Gate, batch: Batch, settings: QualitySettings, lease: Lease) -> Verdict:
    from spark_apps.session import jvm_pid, start_session, stop_session  # noqa: PLC0415 (only a batch is worth a JVM)

    gate.last_verdict()  # completes the archive before it grows
    spark = start_session(_JOB, settings)
    try:
        if (pid := jvm_pid(spark)) is not None:
            lease.record_jvm(pid)
        verdict = gate.decide(spark, batch)
    finally:
        stop_session(spark)
    _log.info("decided", status=verdict.status, first=batch.first_version, last=batch.last_version, rows=verdict.rows)
    return verdict


def _report(verdict: Verdict | None, *, new: bool) -> bytes:
    if verdict is None:
        return orjson.dumps({"table": TABLE, "passed": None, "status": "nothing_staged", "reasons": [], "new": False})
    return orjson.dumps({**orjson.loads(verdict.to_json()), "new": new})
