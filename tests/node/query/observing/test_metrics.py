"""What a node counts of its reads and restores."""

from __future__ import annotations

from prometheus_client.exposition import generate_latest

from storekeeper.clock import ManualClock
from storekeeper.node.query.observing.metrics import NodeCollector
from storekeeper.node.replicas.replica_storage import MemoryStorage
from tests.changelog.messages import Record
from tests.node.query.cluster import Cluster
from tests.node.query.reads.test_hot import MANY, TARGET, OneNode
from tests.node.replicas.recording import batch, log_of, make_replica


def lines(node: OneNode) -> set[str]:
    return set(generate_latest(NodeCollector(node.catalog, node.point, node.router)).decode().splitlines())


def test_a_scan_counts_while_it_is_open() -> None:
    node = OneNode()
    node.write((b"k", b"1"), (b"l", b"2"))
    with node.replica.scan(None, None) as rows:
        next(rows)
        assert 'state_open_iterators{store="rewards"} 1.0' in lines(node)
    assert 'state_open_iterators{store="rewards"} 0.0' in lines(node)


def test_rows_of_one_and_of_many_count_as_kept_or_as_read() -> None:
    node = OneNode()
    node.write((b"k", b"1"), (b"k2", b"2"))

    def lookups() -> tuple[int, int]:
        cache = node.replica.cache
        assert cache is not None
        return cache.hits, cache.misses

    assert node.hot.now(TARGET) is not None
    assert lookups() == (0, 1)
    assert node.hot.now(TARGET) is not None
    assert lookups() == (1, 1)
    assert node.hot.now(MANY) is not None  # k twice, and k2
    assert lookups() == (3, 2)
    assert node.hot.now(MANY) is not None
    assert lookups() == (6, 2)


def test_a_node_without_rocksdb_tells_nothing_of_its_memory() -> None:
    assert not [line for line in lines(OneNode()) if line.startswith("state_rocksdb_block_cache_usage_bytes ")]


def test_the_time_of_a_restore_holds_what_another_process_did_of_it() -> None:
    clock = ManualClock(now_ms=1_700_000_000_000)
    replica = make_replica(MemoryStorage(), clock)
    replica.open(log_of(0, 2))
    replica.restore_in_worker()
    clock.advance(60_000)
    replica.open(log_of(0, 2))
    clock.advance(1000)
    assert replica.restores.count == 0
    replica.apply(batch([Record(0, b"k", b"v0"), Record(1, b"j", b"v1")]))
    assert (replica.restores.count, replica.restores.total_ns) == (1, 61_000_000_000)
    replica.apply(batch([Record(2, b"k", b"v2")], end=True))
    assert replica.restores.count == 1, "following is not a restore"


def test_skipped_records_and_the_last_of_them_are_exported() -> None:
    node = OneNode()
    labels = '{partition="0",store="rewards"}'
    assert {f"state_skipped_records_total{labels} 0.0", f"state_last_skipped_offset{labels} -1.0"} <= lines(node)
    node.replica.apply(batch([Record(0, b"k", b"1", record_headers=None), Record(1, b"l", b"2")], end=True))
    assert {f"state_skipped_records_total{labels} 1.0", f"state_last_skipped_offset{labels} 0.0"} <= lines(node)


def test_rows_without_a_score_are_exported() -> None:
    cluster = Cluster(nodes="a", partitions=1, stores="players=p-log:ranked:Score")
    cluster.write("players", b"ranked", b'{"Score":1}')
    cluster.write("players", b"hostile", b'{"Score":1e-99999999999999999999}')
    services = cluster.nodes["a"].services
    told = generate_latest(NodeCollector(services.catalog, services.point, cluster.nodes["a"].router)).decode()
    assert 'state_unranked_rows{partition="0",store="players"} 1.0' in told.splitlines()
