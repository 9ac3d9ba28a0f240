"""From reports of batches to heartbeat fields. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.heartbeat import Heartbeat, Offsets

_RATE_WINDOW_MS = 10_000
"""The window of rates, unless two batches take longer."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """A finished batch: when it ended, and how long its phases took. `triggerExecution` is the total."""

    batch_id: int
    ended_ms: int
    phases_ms: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Progress:
    """The sum of the reports up to batch `batch_id`. Totals count from the start of the process.

    `recent` has the end (epoch ms) and the rows of the last batches, as many as a rate may need.
    """

    batch_id: int | None = None
    input_rows: int = 0
    input_rows_total: int = 0
    recent: tuple[tuple[int, int], ...] = ()
    batch_duration_ms: int | None = None
    batches_total: int = 0
    phases_ms_total: Mapping[str, int] = field(default_factory=dict)

    def rows_per_second(self, now_ms: int) -> float:
        """The rows of the batches that ended in the window before `now_ms`, per second: 0 if none did."""
        window_ms = self._window_ms
        return 1000 * sum(rows for ended_ms, rows in self.recent if ended_ms > now_ms - window_ms) / window_ms

    @property
    def last_batch_ms(self) -> int | None:
        """When the last batch ended; None if none has since the start of the process."""
        return self.recent[-1][0] if self.recent else None

    @property
    def _window_ms(self) -> int:
        return max(_RATE_WINDOW_MS, 2 * (self.batch_duration_ms or 0))

    def after_batch(self, ended_ms: int, rows: int) -> Progress:
        """The progress with one more recent batch."""
        kept = (batch for batch in self.recent if batch[0] > ended_ms - self._window_ms)
        return replace(self, recent=(*kept, (ended_ms, rows)))


def advanced(progress: Progress, reports: Iterable[BatchReport], rows: Mapping[int, int]) -> Progress:
    """`progress` after further reports, oldest first. A report that is already counted is ignored.

    `rows` are the records that the tasks of each batch have read.
    """
    for report in list(reports):
        if progress.batch_id is None or report.batch_id > progress.batch_id:
            progress = _after(progress, report, rows.get(report.batch_id, 0))
    return progress


def _after(progress: Progress, report: BatchReport, input_rows: int) -> Progress:
    progress = replace(progress, batch_duration_ms=report.phases_ms.get("triggerExecution"))
    return replace(
        progress.after_batch(report.ended_ms, input_rows),
        batch_id=report.batch_id,
        input_rows=input_rows,
        input_rows_total=progress.input_rows_total + input_rows,
        batches_total=progress.batches_total + 1,
        phases_ms_total=_added(progress.phases_ms_total, report.phases_ms),
    )


def _added(totals: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {phase: totals.get(phase, 0) + more.get(phase, 0) for phase in sorted({*totals, *more})}


def offsets_of(position: Position) -> Offsets:
    """A position as a heartbeat shows it."""
    return {
        topic: {str(partition): offset for partition, offset in sorted(partitions.items())}
        for topic, partitions in position.offsets.items()
    }


def with_progress(heartbeat: Heartbeat, progress: Progress, now_ms: int) -> Heartbeat:
    """The heartbeat with the app's progress up to now."""
    return replace(
        heartbeat,
        batch_id=progress.batch_id,
        input_rows=progress.input_rows,
        input_rows_total=progress.input_rows_total,
        input_rows_per_second=progress.rows_per_second(now_ms),
        last_batch_ms=progress.last_batch_ms,
        batch_duration_ms=progress.batch_duration_ms,
        batches_total=progress.batches_total,
        phases_ms_total=progress.phases_ms_total,
    )
