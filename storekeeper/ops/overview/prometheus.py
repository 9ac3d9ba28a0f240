"""The overview as metric families for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from storekeeper.clock import Clock
from storekeeper.engine.runtime.app_health import unread
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat
from storekeeper.metrics.names import Kind, Metric
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.metrics import names
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
    yield _family(names.SNAPSHOT, [((store,), snapshot.at_ms / 1000) for store, snapshot in view.snapshots.items()])
    tables = [((last.verdict.table,), last) for last in view.verdicts]
    yield _family(names.VERDICT_TIME, [(table, last.verdict.decided_at_ms / 1000) for table, last in tables])
    yield _family(names.VERDICT_PASSED, [(table, float(not last.is_open)) for table, last in tables])
    yield _family(names.VERDICT_ROWS, [(table, last.verdict.rows) for table, last in tables])
    yield _family(names.CHECK_TIME, [((one.check, one.subject), one.decided_at_ms / 1000) for one in view.checks])
    yield _family(names.CHECK_PASSED, [((one.check, one.subject), float(one.passed)) for one in view.checks])


def _of_apps(view: Overview) -> Iterator[Family]:
    beats = [(app.name, app.beat) for app in view.apps if app.beat is not None]

    def one(metric: Metric, value: Callable[[Heartbeat], float | None]) -> Family:
        return _family(metric, [((name,), value(beat)) for name, beat in beats])

    yield _family(names.UP, [((app.name,), float(app.problem is None)) for app in view.apps])
    yield _family(names.STATE, [((name, str(s)), float(s is beat.state)) for name, beat in beats for s in AppState])
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
    yield one(names.RESTORE_LEFT, lambda beat: beat.restore_remaining)
    phases = [((name, phase), ms / 1000) for name, beat in beats for phase, ms in beat.phases_ms_total.items()]
    yield _family(names.PHASE_SECONDS, phases)
    places = [((name, topic, part), at, left) for name, beat in beats for topic, part, at, left in unread(beat)]
    yield _family(names.OFFSET, [(labels, offset) for labels, offset, _ in places])
    yield _family(names.LAG, [(labels, left) for labels, _, left in places])


def _seconds(time_ms: int | None) -> float | None:
    return None if time_ms is None else time_ms / 1000


def _family(metric: Metric, samples: Iterable[Sample]) -> Family:
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family: Family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        if value is not None:
            family.add_metric(labels, float(value))
    return family
