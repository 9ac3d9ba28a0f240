"""The overview as metric families for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from storekeeper.clock import Clock
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, unread
from storekeeper.metrics.node_metrics import Kind, Metric
from storekeeper.ops import platform_metrics
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.overview.collect import collect
from storekeeper.ops.overview.model import Overview

Family = CounterMetricFamily | GaugeMetricFamily
Sample = tuple[tuple[str, ...], float | None]
"""The label values of a metric, and its own value; None if there is none."""


class PlatformCollector(Collector):
    """Collects a run directory's files at each scrape."""

    def __init__(self, layout: RunLayout, clock: Clock) -> None:
        self._layout = layout
        self._clock = clock

    def collect(self) -> Iterator[Family]:
        """Every family, those without a sample included."""
        return families(collect(self._layout, self._clock))

    def describe(self) -> Iterator[Family]:
        """Empty, so that making a registry reads no files."""
        yield from ()


def families(view: Overview) -> Iterator[Family]:
    """The overview as metrics."""
    yield from _of_apps(view)
    yield _family(
        platform_metrics.SNAPSHOT, [((store,), snapshot.at_ms / 1000) for store, snapshot in view.snapshots.items()]
    )
    tables = [((last.verdict.table,), last) for last in view.verdicts]
    yield _family(platform_metrics.VERDICT_TIME, [(table, last.verdict.decided_at_ms / 1000) for table, last in tables])
    yield _family(platform_metrics.VERDICT_PASSED, [(table, float(not last.is_open)) for table, last in tables])
    yield _family(platform_metrics.VERDICT_ROWS, [(table, last.verdict.rows) for table, last in tables])
    yield _family(
        platform_metrics.CHECK_TIME, [((one.check, one.subject), one.decided_at_ms / 1000) for one in view.checks]
    )
    yield _family(platform_metrics.CHECK_PASSED, [((one.check, one.subject), float(one.passed)) for one in view.checks])


def _of_apps(view: Overview) -> Iterator[Family]:
    beats = [(app.name, app.beat) for app in view.apps if app.beat is not None]

    def one(metric: Metric, value: Callable[[Heartbeat], float | None]) -> Family:
        return _family(metric, [((name,), value(beat)) for name, beat in beats])

    yield _family(platform_metrics.UP, [((app.name,), float(app.problem is None)) for app in view.apps])
    yield _family(
        platform_metrics.STATE, [((name, str(s)), float(s is beat.state)) for name, beat in beats for s in AppState]
    )
    yield one(platform_metrics.HEARTBEAT, lambda beat: beat.updated_at_ms / 1000)
    yield one(platform_metrics.STARTED, lambda beat: beat.started_at_ms / 1000)
    yield one(platform_metrics.STARTS, lambda beat: beat.starts)
    yield one(platform_metrics.GENERATION, lambda beat: beat.generation)
    yield one(platform_metrics.PROGRESS, lambda beat: _seconds(beat.last_progress_ms))
    yield one(platform_metrics.BATCHES, lambda beat: beat.batches_total)
    yield one(platform_metrics.BATCH_SECONDS, lambda beat: _seconds(beat.batch_duration_ms))
    yield one(platform_metrics.INPUT_ROWS, lambda beat: beat.input_rows_total)
    yield one(platform_metrics.DEAD_LETTERS, lambda beat: beat.dead_letters_total)
    yield one(platform_metrics.DROPPED, lambda beat: beat.dropped_total)
    yield one(platform_metrics.WATERMARK, lambda beat: _seconds(beat.watermark_ms))
    yield one(platform_metrics.RESTORE_LEFT, lambda beat: beat.restore_remaining)
    phases = [((name, phase), ms / 1000) for name, beat in beats for phase, ms in beat.phases_ms_total.items()]
    yield _family(platform_metrics.PHASE_SECONDS, phases)
    places = [((name, topic, part), at, left) for name, beat in beats for topic, part, at, left in unread(beat)]
    yield _family(platform_metrics.OFFSET, [(labels, offset) for labels, offset, _ in places])
    yield _family(platform_metrics.LAG, [(labels, left) for labels, _, left in places])


def _seconds(time_ms: int | None) -> float | None:
    return None if time_ms is None else time_ms / 1000


def _family(metric: Metric, samples: Iterable[Sample]) -> Family:
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family: Family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        if value is not None:
            family.add_metric(labels, float(value))
    return family
