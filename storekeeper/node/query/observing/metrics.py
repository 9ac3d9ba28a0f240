"""A node's metrics for Prometheus, read when they are scraped, at most once a second for all callers together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from storekeeper.clock import Clock
from storekeeper.metrics import node_metrics
from storekeeper.metrics.latency import LatencyRecorder
from storekeeper.metrics.node_metrics import Kind, Metric
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.cluster.membership import HeartbeatCounts
from storekeeper.node.query.answers.answer import REFUSALS
from storekeeper.node.query.forwarding import Router
from storekeeper.node.query.observing.health import readiness
from storekeeper.node.query.protection.request_counts import CONNECTION_REFUSALS, Traffic
from storekeeper.node.query.reads.cooperative_scheduler import CooperativeScheduler, Steps
from storekeeper.node.query.reads.point import PointQueries
from storekeeper.node.replicas.replica_rows import RowCache
from storekeeper.protocol.replica_states import ReplicaRole, ReplicaState
from storekeeper.stores.rocksdb_options import process_memory

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
Samples = Mapping[tuple[str, ...], float]
_NONE = -1


class NodeCollector(Collector):
    """Prometheus collector over a node's catalog and queries."""

    def __init__(
        self,
        catalog: Catalog,
        point: PointQueries,
        router: Router,
        *,
        heartbeats: HeartbeatCounts | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        self._catalog = catalog
        self._point = point
        self._router = router
        self._heartbeats = heartbeats or HeartbeatCounts()
        self._traffic = traffic or Traffic()

    def collect(self) -> Iterator[Family]:
        """Every metric, read now."""
        yield from self._replicas()
        yield from self._reads()
        yield from self._rocksdb()
        reads = (((store, "get"), recorder) for store, recorder in self._point.latency.items())
        yield _latency(node_metrics.STORE_OPERATION, reads)
        yield _latency(
            node_metrics.QUERY_SECONDS, (((way,), recorder) for way, recorder in self._point.answered.items())
        )
        # A counter that began at its first refusal would hide it: Prometheus counts increases from a known value.
        refused = dict.fromkeys((*REFUSALS, *CONNECTION_REFUSALS), 0) | self._traffic.refused
        yield _family(node_metrics.REFUSED_REQUESTS, {(reason,): count for reason, count in refused.items()})
        yield _family(node_metrics.CONNECTIONS, {(): self._traffic.connections})
        yield _family(node_metrics.FORWARDED_REQUESTS, {(): self._router.forwarded_total})
        yield _family(node_metrics.HEDGED_REQUESTS, {(): self._router.hedged_total})
        yield _family(node_metrics.MAP_CORRECTIONS, {(): self._router.corrected_total})
        yield from self._cluster()
        yield _family(node_metrics.INSTANCE_READY, {(): int(readiness(self._catalog).ready)})

    def _cluster(self) -> Iterator[Family]:
        members: dict[tuple[str, ...], float] = {("alive",): 0, ("suspect",): 0, ("unheard",): 0}
        table = self._catalog.table
        for member in () if table is None else table.members:
            status = "suspect" if member.suspect else "alive" if member.heard else "unheard"
            _add(members, (status,), 1)
        yield _family(node_metrics.MEMBERS, members)
        counts = self._heartbeats
        results = {"sent": counts.sent, "heard": counts.heard, "refused": counts.refused, "repeated": counts.repeated}
        yield _family(node_metrics.HEARTBEATS, {(result,): count for result, count in results.items()})

    def _replicas(self) -> Iterator[Family]:
        lag: dict[tuple[str, ...], float] = {}
        restored: dict[tuple[str, ...], float] = {}
        remaining: dict[tuple[str, ...], float] = {}
        skipped: dict[tuple[str, ...], float] = {}
        last_skipped: dict[tuple[str, ...], float] = {}
        unranked: dict[tuple[str, ...], float] = {}
        tasks: dict[tuple[str, ...], float] = {
            (role.value, state.value.lower()): 0 for role in ReplicaRole for state in ReplicaState
        }
        for replica in self._catalog.replicas.values():
            status = replica.status()
            labels = (status.replica.store, str(status.replica.partition))
            lag[labels] = status.offset_lag or 0
            restored[labels] = status.restored_records
            remaining[labels] = lag[labels] if status.state is ReplicaState.RESTORING else 0
            skipped[labels] = status.skipped.records
            last_skipped[labels] = _NONE if status.skipped.last_offset is None else status.skipped.last_offset
            if status.unranked_rows is not None:
                unranked[labels] = status.unranked_rows
            _add(tasks, (status.role.value, status.state.value.lower()), 1)
        yield _family(node_metrics.STANDBY_LAG, lag)
        yield _family(node_metrics.RESTORE_RECORDS, restored)
        yield _family(node_metrics.RESTORE_REMAINING, remaining)
        yield _family(node_metrics.SKIPPED_RECORDS, skipped)
        yield _family(node_metrics.LAST_SKIPPED_OFFSET, last_skipped)
        yield _family(node_metrics.UNRANKED_ROWS, unranked)
        yield _family(node_metrics.TASKS, tasks)

    def _reads(self) -> Iterator[Family]:
        iterators: dict[tuple[str, ...], float] = {}
        caches: dict[str, RowCache] = {}
        restores: dict[str, LatencyRecorder] = {}
        for replica_id, replica in self._catalog.replicas.items():
            _add(iterators, (replica_id.store,), replica.open_iterators())
            restores[replica_id.store] = replica.restores
            if replica.cache is not None:
                caches[replica_id.store] = replica.cache
        yield _family(node_metrics.OPEN_ITERATORS, iterators)
        yield _latency(node_metrics.RESTORE_SECONDS, (((store,), recorder) for store, recorder in restores.items()))
        lookups: dict[tuple[str, ...], float] = {}
        for store, cache in caches.items():
            lookups |= {(store, "hit"): cache.hits, (store, "miss"): cache.misses}
        yield _family(node_metrics.CACHE_LOOKUPS, lookups)

    def _rocksdb(self) -> Iterator[Family]:
        """Each property as the sum over the partitions that this node holds of a store, and the process's memory."""
        held = False
        for native, metric in node_metrics.ROCKSDB_PROPERTIES.items():
            sums: dict[tuple[str, ...], float] = {}
            for replica_id, replica in self._catalog.replicas.items():
                value = replica.property_int(native)
                if value is not None:
                    _add(sums, (replica_id.store,), value)
            held = held or bool(sums)
            yield _family(metric, sums)
        if not held:
            return
        memory = process_memory()
        yield _family(node_metrics.ROCKSDB_CACHE_USAGE, {(): memory.usage_bytes()})
        yield _family(node_metrics.ROCKSDB_CACHE_PINNED, {(): memory.pinned_bytes()})
        yield _family(node_metrics.ROCKSDB_CACHE_BOUND, {(): memory.bound_bytes})


def _add(samples: dict[tuple[str, ...], float], labels: tuple[str, ...], value: float) -> None:
    samples[labels] = samples.get(labels, 0) + value


def _family(metric: Metric, samples: Samples) -> Family:
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in sorted(samples.items()):
        family.add_metric(labels, value)
    return family


def _latency(metric: Metric, recorders: Iterable[tuple[tuple[str, ...], LatencyRecorder]]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, recorder in recorders:
        buckets = [("+Inf" if bound == float("inf") else repr(bound), count) for bound, count in recorder.cumulative()]
        family.add_metric(labels, buckets, recorder.total_ns / 1e9)
    return family


_GOOD_FOR_S = 1.0


class Scrapes:
    """The text of metrics: written in turns, and at most once a second for all callers together.

    Belongs to one event loop.
    """

    def __init__(self, metrics: Collector, scheduler: CooperativeScheduler, clock: Clock) -> None:
        self._metrics = metrics
        self._scheduler = scheduler
        self._clock = clock
        self._written: asyncio.Future[bytes] | None = None
        self._begun_s = 0.0

    async def text(self) -> bytes:
        """Prometheus' text format, as of a second ago at the earliest."""
        now_s = self._clock.monotonic_s()
        written = self._written
        if written is None or now_s - self._begun_s >= _GOOD_FOR_S or (written.done() and _failed(written)):
            written = self._written = asyncio.ensure_future(self._scheduler.finish(_written(self._metrics)))
            self._begun_s = now_s
        # Others wait for the same text: if one caller leaves, they must still get it.
        return await asyncio.shield(written)


class _One(Collector):
    """A single family, to be written by itself."""

    def __init__(self, family: Any) -> None:
        self._family = family

    def collect(self) -> Iterator[Any]:
        yield self._family


def _written(metrics: Collector) -> Steps[bytes]:
    parts: list[bytes] = []
    for family in metrics.collect():
        parts.append(generate_latest(_One(family)))
        yield
    return b"".join(parts)


def _failed(written: asyncio.Future[bytes]) -> bool:
    return written.cancelled() or written.exception() is not None
