from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from state.metrics.collector import StoreMetrics
from state.metrics.names import Kind, all_metrics
from state.metrics.rocksdb_statistics import tickers
from state.serdes.serde import Utf8Serde
from state.stores.builder import StoreBuilder
from state.stores.bytes_store import BytesStore
from state.stores.layers import StateStore
from state.stores.rocksdb import open_rocksdb
from state.stores.rocksdb_options import RocksDBOptions
from state.stores.suppliers import RocksDBSupplier


def scraped(*stores: StateStore) -> str:
    registry = CollectorRegistry()
    metrics = StoreMetrics()
    for store in stores:
        metrics.add(store)
    registry.register(metrics)
    return generate_latest(registry).decode()


def test_operations_cache_iterators_and_rocksdb_are_exported(tmp_path: Path) -> None:
    builder = StoreBuilder("rewards", RocksDBSupplier(tmp_path)).with_caching()
    store = builder.key_value(Utf8Serde(), Utf8Serde())
    store.put("a", "1")
    store.flush()
    assert (store.get("a"), store.get("b")) == ("1", None)
    with store.all():
        text = scraped(store)
    store.close()
    assert 'state_store_operation_seconds_count{op="get",store="rewards"} 2.0' in text
    assert 'state_cache_lookups_total{result="hit",store="rewards"} 1.0' in text
    assert 'state_cache_lookups_total{result="miss",store="rewards"} 1.0' in text
    assert 'state_open_iterators{store="rewards"} 1.0' in text
    assert 'state_rocksdb_estimated_keys{store="rewards"} 1.0' in text
    assert re.search(r"state_rocksdb_block_cache_usage_bytes \d", text)


def test_late_records_are_exported() -> None:
    store = StoreBuilder("windows").window(Utf8Serde(), Utf8Serde(), window_size_ms=10, retention_ms=100)
    store.put("a", "1", 1000)
    store.put("a", "1", 950)
    store.put("a", "1", 1)
    text = scraped(store)
    assert 'state_dropped_records_total{reason="late",store="windows"} 1.0' in text
    assert 'state_record_lateness_seconds_count{store="windows"} 2.0' in text
    assert 'state_record_lateness_seconds_sum{store="windows"} 1.049' in text


def test_closed_stores_are_left_out() -> None:
    store = StoreBuilder("gone").key_value(Utf8Serde(), Utf8Serde())
    store.close()
    assert "gone" not in scraped(store)


def test_a_store_that_closes_during_a_scrape_does_not_fail_it(tmp_path: Path) -> None:
    stores = [StoreBuilder(name, RocksDBSupplier(tmp_path)).key_value(Utf8Serde(), Utf8Serde()) for name in ("a", "b")]
    metrics = StoreMetrics()
    for store in stores:
        metrics.add(store)
    families = metrics.collect()
    next(families)
    stores[0].close()
    last = {family.name: [sample.labels.get("store") for sample in family.samples] for family in families}
    assert last["state_rocksdb_estimated_keys"] == ["b"]
    stores[1].close()


def test_a_store_of_the_same_name_takes_the_place_and_removed_ones_are_left_out() -> None:
    first, second = (StoreBuilder("rows").key_value(Utf8Serde(), Utf8Serde()) for _ in range(2))
    second.get("a")
    metrics = StoreMetrics()
    metrics.add(first)
    metrics.add(second)
    counts = {
        sample.labels["op"]: sample.value
        for sample in next(metrics.collect()).samples
        if sample.name.endswith("_count")
    }
    assert counts["get"] == 1
    metrics.remove("rows")
    metrics.remove("rows")
    assert not any(family.samples for family in metrics.collect())


def test_tickers_are_exported_for_stores_with_statistics(tmp_path: Path) -> None:
    class WithStatistics:
        def open(self, name: str) -> BytesStore:
            return open_rocksdb(tmp_path, name, RocksDBOptions(statistics=True))

    store = StoreBuilder("rows", WithStatistics()).key_value(Utf8Serde(), Utf8Serde())
    store.put("a", "1")
    store.get("a")
    text = scraped(store)
    store.close()
    assert 'state_rocksdb_memtable_hits_total{store="rows"} 1.0' in text


def test_exported_names_are_in_the_table(tmp_path: Path) -> None:
    store = StoreBuilder("rewards", RocksDBSupplier(tmp_path)).with_caching().key_value(Utf8Serde(), Utf8Serde())
    exported = set(re.findall(r"^# TYPE (\S+) (?:counter|gauge|histogram)", scraped(store), re.MULTILINE))
    store.close()
    assert exported <= {metric.name for metric in all_metrics()}


def test_names_follow_the_rules() -> None:
    for metric in all_metrics():
        assert re.fullmatch(r"state_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER), metric.name
        assert metric.kind is not Kind.HISTOGRAM or metric.name.endswith("_seconds"), metric.name
        assert not {"key", "id"} & set(metric.labels)
    assert len({metric.name for metric in all_metrics()}) == len(all_metrics())


def test_tickers_are_read_from_text() -> None:
    text = "rocksdb.block.cache.hit COUNT : 12\nrocksdb.db.get.micros P50 : 1.0 P95 : 2.0 COUNT : 5 SUM : 7\n"
    assert tickers(text) == {"rocksdb.block.cache.hit": 12}
