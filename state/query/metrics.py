"""A node's metrics for Prometheus, read when they are scraped."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from state.query.catalog import Catalog
from state.query.health import readiness
from state.query.point import PointQueries
from state.replicas.states import ReplicaState

_REPLICA_LABELS = ("store", "partition")


class NodeCollector:
    """Prometheus collector over a node's catalog and queries."""

    def __init__(self, catalog: Catalog, point: PointQueries) -> None:
        self._catalog = catalog
        self._point = point

    def collect(self) -> Iterable[Metric]:
        """Every metric, read now."""
        yield from self._replica_metrics()
        yield from self._task_metrics()
        latency = HistogramMetricFamily(
            "state_store_operation_seconds", "Time of one read in the local store.", labels=("store", "op")
        )
        for store, recorder in self._point.latency.items():
            buckets = [
                ("+Inf" if bound == float("inf") else repr(bound), count) for bound, count in recorder.cumulative()
            ]
            latency.add_metric((store, "get"), buckets, recorder.total_ns / 1e9)
        yield latency
        forwarded = CounterMetricFamily("state_forwarded_requests", "Point queries sent to another node.")
        forwarded.add_metric((), self._point.forwarded_total)
        yield forwarded
        ready = GaugeMetricFamily("state_instance_ready", "1 when every replica answers.")
        ready.add_metric((), int(readiness(self._catalog).ready))
        yield ready

    def _replica_metrics(self) -> Iterable[Metric]:
        lag = GaugeMetricFamily(
            "state_standby_lag_records", "Records that a replica is behind its changelog.", labels=_REPLICA_LABELS
        )
        restored = CounterMetricFamily(
            "state_restore_records", "Records read by the last restore.", labels=_REPLICA_LABELS
        )
        remaining = GaugeMetricFamily(
            "state_restore_remaining_records", "Records left of a restore under way.", labels=_REPLICA_LABELS
        )
        dropped = CounterMetricFamily(
            "state_dropped_records", "Changelog records that belong to no row.", labels=("store", "partition", "reason")
        )
        for replica in self._catalog.replicas.values():
            status = replica.status()
            labels = (status.replica.store, str(status.replica.partition))
            lag.add_metric(labels, status.offset_lag or 0)
            restored.add_metric(labels, status.restored_records)
            restoring = status.state is ReplicaState.RESTORING
            remaining.add_metric(labels, (status.offset_lag or 0) if restoring else 0)
            dropped.add_metric((*labels, "null-key"), status.null_keys)
        return lag, restored, remaining, dropped

    def _task_metrics(self) -> Iterable[Metric]:
        tasks = GaugeMetricFamily("state_tasks", "Replicas by role and state.", labels=("role", "status"))
        counts: dict[tuple[str, str], int] = {}
        for replica in self._catalog.replicas.values():
            place = (replica.role.value, replica.state.value.lower())
            counts[place] = counts.get(place, 0) + 1
        for labels, count in sorted(counts.items()):
            tasks.add_metric(labels, count)
        return (tasks,)


def make_registry(catalog: Catalog, point: PointQueries) -> CollectorRegistry:
    """A registry with a node's metrics."""
    registry = CollectorRegistry()
    registry.register(NodeCollector(catalog, point))
    return registry
