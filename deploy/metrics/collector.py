"""Makes metric families from heartbeats, snapshots and verdicts at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import structlog
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from deploy.app_health import HEARTBEAT_STALE_MS
from deploy.layout import RunLayout
from deploy.metrics import names
from deploy.run_reader import heartbeats, last_verdicts, snapshots, unread
from spark_apps.runtime.heartbeat import AppState, Heartbeat
from state.clock import Clock
from state.maintenance.check_verdict import CheckVerdict, last_verdict
from state.metrics.names import Kind, Metric

Family = CounterMetricFamily | GaugeMetricFamily
Sample = tuple[tuple[str, ...], float | None]
"""The label values of a metric, and its own value; None if there is none."""

_log = structlog.get_logger(__name__)


class PlatformCollector(Collector):
    """Reads a run directory. What can't be read is left out and logged."""

    def __init__(self, layout: RunLayout, clock: Clock) -> None:
        self._layout = layout
        self._clock = clock

    def collect(self) -> Iterator[Family]:
        """Every family, those without a sample included."""
        yield from _of_apps(heartbeats(self._layout), self._clock.now_ms())
        taken = snapshots(self._layout).items()
        yield _family(names.SNAPSHOT, [((store,), snapshot.at_ms / 1000) for store, snapshot in taken])
        yield from self._verdicts()
        yield from self._checks()

    def describe(self) -> Iterator[Family]:
        """Empty, so that making a registry reads no files."""
        yield from ()

    def _verdicts(self) -> Iterator[Family]:
        tables = [((last.verdict.table,), last) for last in last_verdicts(self._layout)]
        yield _family(names.VERDICT_TIME, [(table, last.verdict.decided_at_ms / 1000) for table, last in tables])
        yield _family(names.VERDICT_PASSED, [(table, float(not last.is_open)) for table, last in tables])
        yield _family(names.VERDICT_ROWS, [(table, last.verdict.rows) for table, last in tables])

    def _checks(self) -> Iterator[Family]:
        folders = [folder for folder in sorted(self._layout.root.glob("quality/verdicts/*/*")) if folder.is_dir()]
        found = [((folder.parent.name, folder.name), verdict) for folder in folders if (verdict := _last_check(folder))]
        yield _family(names.CHECK_TIME, [(labels, verdict.decided_at_ms / 1000) for labels, verdict in found])
        yield _family(names.CHECK_PASSED, [(labels, float(verdict.passed)) for labels, verdict in found])
        growth = [((store,), verdict.details) for (check, store), verdict in found if check == "growth"]
        yield _family(names.GROWTH_ROWS, [(store, details.get("rows_per_day")) for store, details in growth])
        yield _family(names.GROWTH_BYTES, [(store, details.get("bytes_per_day")) for store, details in growth])


def _last_check(folder: Path) -> CheckVerdict | None:
    try:
        return last_verdict(folder)
    except (OSError, ValueError):
        _log.warning("verdict_unreadable", folder=str(folder), exc_info=True)
        return None


def _of_apps(beats: list[Heartbeat], now_ms: int) -> Iterator[Family]:
    def one(metric: Metric, value: Callable[[Heartbeat], float | None]) -> Family:
        return _family(metric, [((beat.app,), value(beat)) for beat in beats])

    yield one(names.UP, lambda beat: _is_up(beat, now_ms))
    yield _family(names.STATE, [((beat.app, str(s)), float(s is beat.state)) for beat in beats for s in AppState])
    yield one(names.HEARTBEAT, lambda beat: beat.updated_at_ms / 1000)
    yield one(names.STARTED, lambda beat: beat.started_at_ms / 1000)
    yield one(names.STARTS, lambda beat: beat.starts)
    yield one(names.GENERATION, lambda beat: beat.generation)
    yield one(names.PROGRESS, lambda beat: _seconds(beat.last_progress_ms))
    yield one(names.BATCHES, lambda beat: beat.batches_total)
    yield one(names.BATCH_SECONDS, lambda beat: _seconds(beat.batch_duration_ms))
    yield one(names.INPUT_ROWS, lambda beat: beat.input_rows_total)
    yield one(names.DEAD_LETTERS, lambda beat: beat.dead_letters_total)
    yield one(names.DROPPED, lambda beat: beat.dropped_total)
    yield one(names.WATERMARK, lambda beat: _seconds(beat.watermark_ms))
    yield one(names.STATE_ROWS, lambda beat: beat.state_rows)
    yield one(names.RESTORE_LEFT, lambda beat: beat.restore_remaining)
    phases = [((beat.app, phase), ms / 1000) for beat in beats for phase, ms in beat.phases_ms_total.items()]
    yield _family(names.PHASE_SECONDS, phases)
    places = [((beat.app, topic, part), at, left) for beat in beats for topic, part, at, left in unread(beat)]
    yield _family(names.OFFSET, [(labels, offset) for labels, offset, _ in places])
    yield _family(names.LAG, [(labels, left) for labels, _, left in places])


def _is_up(beat: Heartbeat, now_ms: int) -> bool:
    return beat.state is AppState.RUNNING and beat.age_ms(now_ms) <= HEARTBEAT_STALE_MS


def _seconds(time_ms: int | None) -> float | None:
    return None if time_ms is None else time_ms / 1000


def _family(metric: Metric, samples: Iterable[Sample]) -> Family:
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family: Family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        if value is not None:
            family.add_metric(labels, float(value))
    return family
