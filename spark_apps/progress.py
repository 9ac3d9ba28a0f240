"""From Spark's progress reports to heartbeat fields: pure functions on the reports' JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_apps.heartbeat import Heartbeat, Offsets
from state.changelog.position import Position

DEAD_LETTERS = "dead_letters"
"""The name of the observation, and of its one number, by which a stream counts what it could not process."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What the reports up to batch `batch_id` add up to. Totals count from the start of the process."""

    batch_id: int | None = None
    input_rows: int = 0
    input_rows_total: int = 0
    input_rows_per_second: float = 0.0
    batch_duration_ms: int | None = None
    dead_letters_total: int = 0
    state_rows: int | None = None


def advanced(progress: Progress, reports: Iterable[Mapping[str, Any]]) -> Progress:
    """`progress` after further reports, oldest first. A report that is counted already changes nothing.

    Nor does a report of an idle trigger, which bears the id of the batch that is yet to come.
    """
    for report in reports:
        if "addBatch" not in report["durationMs"]:
            continue
        if progress.batch_id is None or report["batchId"] > progress.batch_id:
            progress = _after(progress, report)
    return progress


def _after(progress: Progress, report: Mapping[str, Any]) -> Progress:
    operators = report.get("stateOperators") or ()
    dead_letters = (report.get("observedMetrics") or {}).get(DEAD_LETTERS) or {}
    input_rows = report.get("numInputRows") or 0
    return replace(
        progress,
        batch_id=report["batchId"],
        input_rows=input_rows,
        input_rows_total=progress.input_rows_total + input_rows,
        input_rows_per_second=float(report.get("processedRowsPerSecond") or 0.0),
        batch_duration_ms=report.get("batchDuration"),
        dead_letters_total=progress.dead_letters_total + int(dead_letters.get(DEAD_LETTERS) or 0),
        state_rows=sum(operator["numRowsTotal"] for operator in operators) if operators else None,
    )


def offsets_of(position: Position) -> Offsets:
    """A position as a heartbeat shows it."""
    return {
        topic: {str(partition): offset for partition, offset in sorted(partitions.items())}
        for topic, partitions in position.offsets.items()
    }


def with_progress(heartbeat: Heartbeat, progress: Progress) -> Heartbeat:
    """The heartbeat with what the app has done by now."""
    return replace(
        heartbeat,
        batch_id=progress.batch_id,
        input_rows=progress.input_rows,
        input_rows_total=progress.input_rows_total,
        input_rows_per_second=progress.input_rows_per_second,
        batch_duration_ms=progress.batch_duration_ms,
        dead_letters_total=progress.dead_letters_total,
        state_rows=progress.state_rows,
    )
