"""Exports the metrics of open stores to Prometheus: read when scraped, nothing to do in between. Needs `serve`."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from state.errors import StoreClosedError
from state.metrics import names
from state.metrics.latency import LatencyRecorder
from state.metrics.names import Kind, Metric
from state.metrics.rocksdb_statistics import tickers
from state.stores.layers import StateStore
from state.stores.rocksdb import RocksDBStore
from state.stores.rocksdb_options import process_memory
from state.stores.stream_time import StreamTime

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


class StoreMetrics(Collector):
    """A collector of stores: `REGISTRY.register(metrics)`, then `metrics.add(store)`. Thread-safe."""

    def __init__(self) -> None:
        self._stores: dict[str, StateStore] = {}
        self._lock = threading.Lock()

    def add(self, store: StateStore) -> None:
        """Exports a store from now on; a store of the same name takes the place of the last."""
        with self._lock:
            self._stores[store.name] = store

    def remove(self, name: str) -> None:
        """Exports a store no longer. Closed stores are left out anyway."""
        with self._lock:
            self._stores.pop(name, None)

    def collect(self) -> Iterator[Family]:
        """All families, at this moment. A store that is closed meanwhile is left out from there on."""
        with self._lock:
            stores = {name: store for name, store in self._stores.items() if store.is_open}
        yield from _operations(stores)
        yield from _caches(stores)
        yield from _iterators(stores)
        yield from _stream_times(stores)
        yield from _rocksdb(stores)


def _numbers(metric: Metric, samples: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric, recorders: Iterable[tuple[tuple[str, ...], LatencyRecorder]]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, recorder in recorders:
        buckets = [("+Inf" if bound == float("inf") else repr(bound), count) for bound, count in recorder.cumulative()]
        family.add_metric(labels, buckets, recorder.total_ns / 1e9)
    return family


def _operations(stores: dict[str, StateStore]) -> Iterator[Family]:
    yield _histogram(
        names.STORE_OPERATION,
        (
            ((name, operation), recorder)
            for name, store in stores.items()
            if store.layers.metered is not None
            for operation, recorder in store.layers.metered.latencies.items()
        ),
    )


def _caches(stores: dict[str, StateStore]) -> Iterator[Family]:
    caches = {name: store.layers.cache for name, store in stores.items() if store.layers.cache is not None}
    hits = [((name, "hit"), cache.hits) for name, cache in caches.items()]
    misses = [((name, "miss"), cache.misses) for name, cache in caches.items()]
    yield _numbers(names.CACHE_LOOKUPS, hits + misses)
    yield _numbers(names.CACHE_BYTES, [((name,), cache.budget.used_bytes) for name, cache in caches.items()])
    yield _numbers(names.CACHE_EVICTIONS, [((name,), cache.evictions) for name, cache in caches.items()])


def _iterators(stores: dict[str, StateStore]) -> Iterator[Family]:
    registries = [((name,), store.open_iterators) for name, store in stores.items()]
    yield _numbers(names.OPEN_ITERATORS, [(labels, len(registry)) for labels, registry in registries])
    yield _numbers(
        names.OLDEST_ITERATOR,
        [
            (labels, registry.oldest_opened_at_ms / 1000)
            for labels, registry in registries
            if registry.oldest_opened_at_ms is not None
        ],
    )
    yield _histogram(names.ITERATOR_SECONDS, [(labels, registry.durations) for labels, registry in registries])
    yield _numbers(names.LEAKED_ITERATORS, [(labels, registry.leaked_total) for labels, registry in registries])


def _stream_times(stores: dict[str, StateStore]) -> Iterator[Family]:
    times = {name: getattr(store, "stream_time", None) for name, store in stores.items()}
    timed = {name: time for name, time in times.items() if isinstance(time, StreamTime)}
    yield _numbers(names.DROPPED_RECORDS, [((name, "late"), time.dropped_total) for name, time in timed.items()])
    yield _histogram(names.RECORD_LATENESS, [((name,), time.lateness) for name, time in timed.items()])


def _rocksdb(stores: dict[str, StateStore]) -> Iterator[Family]:
    backends = {
        name: store.layers.backend for name, store in stores.items() if isinstance(store.layers.backend, RocksDBStore)
    }
    for property_name, metric in names.ROCKSDB_PROPERTIES.items():
        values = [((name,), _property(backend, property_name)) for name, backend in backends.items()]
        yield _numbers(metric, [(labels, value) for labels, value in values if value is not None])
    counts = {name: tickers(backend.statistics() or "") for name, backend in backends.items()}
    for ticker, metric in names.ROCKSDB_TICKERS.items():
        yield _numbers(metric, [((name,), found[ticker]) for name, found in counts.items() if ticker in found])
    if backends:
        memory = process_memory()
        yield _numbers(names.ROCKSDB_CACHE_USAGE, [((), memory.usage_bytes())])
        yield _numbers(names.ROCKSDB_CACHE_PINNED, [((), memory.pinned_bytes())])
        yield _numbers(names.ROCKSDB_CACHE_BOUND, [((), memory.bound_bytes)])


def _property(backend: RocksDBStore, name: str) -> int | None:
    try:
        return backend.property_int(name)
    except StoreClosedError:
        return None
