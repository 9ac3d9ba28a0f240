"""Every metric that the state library and the serving node export: name, kind, labels and what it says.

One table, so that dashboards, alerts, documentation and code can be checked against each other. The names follow
Prometheus' rules: base units, `_total` for counters, never a key or an id as a label. Beside each stands the Kafka
Streams metric that an operator would look for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What Prometheus makes of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: as it is exported.
        kind: counter, gauge or histogram.
        help: one sentence.
        labels: in their order.
        kafka_streams: the nearest metric of Kafka Streams, or an empty string.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    kafka_streams: str = ""


STORE_OPERATION = Metric(
    "state_store_operation_seconds", Kind.HISTOGRAM, "Time of one store operation; a batch counts as one.",
    ("store", "op"), "put-latency-avg, get-latency-avg, put-all-latency-avg, range-latency-avg, flush-latency-avg",
)  # fmt: skip
CACHE_LOOKUPS = Metric(
    "state_cache_lookups_total", Kind.COUNTER, "Look-ups in the record cache.", ("store", "result"), "hit-ratio-avg"
)
CACHE_BYTES = Metric(
    "state_cache_bytes", Kind.GAUGE, "Bytes that the record cache of a store's budget holds.", ("store",)
)
CACHE_EVICTIONS = Metric("state_cache_evictions_total", Kind.COUNTER, "Rows evicted from the record cache.", ("store",))
OPEN_ITERATORS = Metric(
    "state_open_iterators", Kind.GAUGE, "Iterators that are open now.", ("store",), "num-open-iterators"
)
OLDEST_ITERATOR = Metric(
    "state_oldest_iterator_open_timestamp_seconds", Kind.GAUGE, "When the oldest open iterator was opened.",
    ("store",), "oldest-iterator-open-since-ms",
)  # fmt: skip
ITERATOR_SECONDS = Metric(
    "state_iterator_seconds", Kind.HISTOGRAM, "How long iterators stayed open.", ("store",), "iterator-duration-avg"
)
LEAKED_ITERATORS = Metric(
    "state_leaked_iterators_total", Kind.COUNTER, "Iterators dropped without being closed or exhausted.", ("store",)
)
DROPPED_RECORDS = Metric(
    "state_dropped_records_total", Kind.COUNTER, "Records that were not processed.", ("store", "reason"),
    "dropped-records-total",
)  # fmt: skip
RECORD_LATENESS = Metric(
    "state_record_lateness_seconds", Kind.HISTOGRAM, "How far records were behind stream time.", ("store",),
    "record-lateness-avg",
)  # fmt: skip
RESTORE_RECORDS = Metric(
    "state_restore_records_total", Kind.COUNTER, "Records read by restores.", ("store", "partition"), "restore-total"
)
RESTORE_REMAINING = Metric(
    "state_restore_remaining_records", Kind.GAUGE, "Records left of a restore under way.", ("store", "partition"),
    "restore-remaining-records-total",
)  # fmt: skip
RESTORE_SECONDS = Metric("state_restore_seconds", Kind.HISTOGRAM, "How long restores took.", ("store",))
STANDBY_LAG = Metric(
    "state_standby_lag_records", Kind.GAUGE, "Records that a replica is behind its changelog.", ("store", "partition"),
    "update-rate and the standby's lag",
)  # fmt: skip
TASKS = Metric(
    "state_tasks", Kind.GAUGE, "Replicas by role and status.", ("role", "status"),
    "active-restoring-tasks, standby-updating-tasks",
)  # fmt: skip
COMMIT_SECONDS = Metric("state_commit_seconds", Kind.HISTOGRAM, "Time of one commit.", (), "commit-latency-avg")
INSTANCE_READY = Metric("state_instance_ready", Kind.GAUGE, "1 when every replica answers.", (), "state")
QUERY_SECONDS = Metric(
    "state_query_seconds", Kind.HISTOGRAM,
    "Time to answer a question for one row: from here (local), or by asking another node (forwarded).",
    ("way",),
)  # fmt: skip
REFUSED_REQUESTS = Metric(
    "state_refused_requests_total",
    Kind.COUNTER,
    "Requests and connections that were refused, by problem type or by what a connection did.",
    ("reason",),
)
CONNECTIONS = Metric("state_connections", Kind.GAUGE, "Connections to the node that are open now.")
FORWARDED_REQUESTS = Metric("state_forwarded_requests_total", Kind.COUNTER, "Questions sent to another node.")
HEDGED_REQUESTS = Metric(
    "state_hedged_requests_total", Kind.COUNTER, "Questions that were sent to a second node as the first was slow."
)
MAP_CORRECTIONS = Metric(
    "state_map_corrections_total",
    Kind.COUNTER,
    "Questions that another node sent elsewhere as it does not hold the rows.",
)
MEMBERS = Metric("state_members", Kind.GAUGE, "Nodes of the cluster by what is heard of them.", ("status",))
HEARTBEATS = Metric("state_heartbeats_total", Kind.COUNTER, "Heartbeats by what became of them.", ("result",))

ROCKSDB_PROPERTIES = {
    "rocksdb.cur-size-active-mem-table": Metric(
        "state_rocksdb_active_memtable_bytes", Kind.GAUGE, "Bytes in active write buffers.", ("store",),
        "cur-size-active-mem-table",
    ),
    "rocksdb.size-all-mem-tables": Metric(
        "state_rocksdb_memtables_bytes", Kind.GAUGE, "Bytes in all write buffers.", ("store",), "size-all-mem-tables"
    ),
    "rocksdb.num-immutable-mem-table": Metric(
        "state_rocksdb_immutable_memtables", Kind.GAUGE, "Write buffers that wait to be flushed.", ("store",),
        "num-immutable-mem-table",
    ),
    "rocksdb.mem-table-flush-pending": Metric(
        "state_rocksdb_flush_pending", Kind.GAUGE, "1 when a flush is due.", ("store",), "mem-table-flush-pending"
    ),
    "rocksdb.total-sst-files-size": Metric(
        "state_rocksdb_sst_bytes", Kind.GAUGE, "Bytes of table files on disk.", ("store",), "total-sst-files-size"
    ),
    "rocksdb.live-sst-files-size": Metric(
        "state_rocksdb_live_sst_bytes", Kind.GAUGE, "Bytes of table files in use.", ("store",), "live-sst-files-size"
    ),
    "rocksdb.estimate-num-keys": Metric(
        "state_rocksdb_estimated_keys", Kind.GAUGE, "RocksDB's estimate of its keys.", ("store",), "estimate-num-keys"
    ),
    "rocksdb.estimate-table-readers-mem": Metric(
        "state_rocksdb_table_readers_bytes", Kind.GAUGE, "Bytes of indexes and filters outside the cache.", ("store",),
        "estimate-table-readers-mem",
    ),
    "rocksdb.estimate-pending-compaction-bytes": Metric(
        "state_rocksdb_pending_compaction_bytes", Kind.GAUGE, "Bytes that compaction has to rewrite.", ("store",),
        "estimate-pending-compaction-bytes",
    ),
    "rocksdb.compaction-pending": Metric(
        "state_rocksdb_compaction_pending", Kind.GAUGE, "1 when a compaction is due.", ("store",), "compaction-pending"
    ),
    "rocksdb.num-running-compactions": Metric(
        "state_rocksdb_running_compactions", Kind.GAUGE, "Compactions that run now.", ("store",),
        "num-running-compactions",
    ),
    "rocksdb.actual-delayed-write-rate": Metric(
        "state_rocksdb_delayed_write_bytes_per_second", Kind.GAUGE, "Rate that writes are slowed to, 0 for not at all.",
        ("store",), "write-stall-duration-avg",
    ),
    "rocksdb.background-errors": Metric(
        "state_rocksdb_background_errors", Kind.GAUGE, "Errors of flushes and compactions.", ("store",),
        "background-errors",
    ),
}  # fmt: skip
"""RocksDB's integer properties that are exported, read when they are scraped."""

ROCKSDB_CACHE_USAGE = Metric(
    "state_rocksdb_block_cache_usage_bytes", Kind.GAUGE, "Bytes in the process's block cache, write buffers included.",
    (), "block-cache-usage",
)  # fmt: skip
ROCKSDB_CACHE_PINNED = Metric(
    "state_rocksdb_block_cache_pinned_bytes", Kind.GAUGE, "Bytes of the block cache that can't be evicted now.", (),
    "block-cache-pinned-usage",
)  # fmt: skip
ROCKSDB_CACHE_BOUND = Metric(
    "state_rocksdb_block_cache_bound_bytes", Kind.GAUGE, "The one bound for block cache and write buffers.", (),
    "block-cache-capacity",
)  # fmt: skip
ROCKSDB_TICKERS = {
    "rocksdb.block.cache.hit": Metric(
        "state_rocksdb_block_cache_hits_total", Kind.COUNTER, "Blocks found in the cache; needs statistics.",
        ("store",), "block-cache-data-hit-ratio",
    ),
    "rocksdb.block.cache.miss": Metric(
        "state_rocksdb_block_cache_misses_total", Kind.COUNTER, "Blocks read from disk; needs statistics.", ("store",),
        "block-cache-data-hit-ratio",
    ),
    "rocksdb.memtable.hit": Metric(
        "state_rocksdb_memtable_hits_total", Kind.COUNTER, "Reads answered by write buffers; needs statistics.",
        ("store",), "memtable-hit-ratio",
    ),
    "rocksdb.memtable.miss": Metric(
        "state_rocksdb_memtable_misses_total", Kind.COUNTER, "Reads that had to look further; needs statistics.",
        ("store",), "memtable-hit-ratio",
    ),
    "rocksdb.bytes.written": Metric(
        "state_rocksdb_written_bytes_total", Kind.COUNTER, "Bytes of writes; needs statistics.", ("store",),
        "bytes-written-total",
    ),
    "rocksdb.bytes.read": Metric(
        "state_rocksdb_read_bytes_total", Kind.COUNTER, "Bytes of reads; needs statistics.", ("store",),
        "bytes-read-total",
    ),
    "rocksdb.stall.micros": Metric(
        "state_rocksdb_stall_microseconds_total", Kind.COUNTER, "Time that writes stalled; needs statistics.",
        ("store",), "write-stall-duration-total",
    ),
}  # fmt: skip
"""RocksDB's tickers that are exported for stores opened with statistics."""


def all_metrics() -> tuple[Metric, ...]:
    """Every metric in this table."""
    single = tuple(value for value in globals().values() if isinstance(value, Metric))
    return (*single, *ROCKSDB_PROPERTIES.values(), *ROCKSDB_TICKERS.values())
