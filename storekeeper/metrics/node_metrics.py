"""Every metric that a query node exports: name, kind, labels and meaning.

One table, so that dashboards, alerts, documentation and code can be checked against each other. The names follow
Prometheus' rules: base units, `_total` for counters, never a key or an id as a label. Beside each stands the Kafka
Streams metric that an operator would look for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The Prometheus type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `kind` is counter, gauge or histogram. `kafka_streams` is the nearest metric of Kafka Streams, or
    empty.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    kafka_streams: str = ""


STORE_OPERATION = Metric(
    "state_store_operation_seconds", Kind.HISTOGRAM, "Time to read one row from its store.",
    ("store", "op"), "get-latency-avg",
)  # fmt: skip
CACHE_LOOKUPS = Metric(
    "state_cache_lookups_total", Kind.COUNTER,
    "Look-ups of rows by key: from a cached answer (`hit`), or from the store (`miss`).",
    ("store", "result"), "hit-ratio-avg",
)  # fmt: skip
OPEN_ITERATORS = Metric(
    "state_open_iterators", Kind.GAUGE, "Open scans of a store's rows.", ("store",), "num-open-iterators"
)
RESTORE_RECORDS = Metric(
    "state_restore_records_total", Kind.COUNTER, "Records read by restores.", ("store", "partition"), "restore-total"
)
RESTORE_REMAINING = Metric(
    "state_restore_remaining_records", Kind.GAUGE, "Records that running restores still have to read.",
    ("store", "partition"), "restore-remaining-records-total",
)  # fmt: skip
RESTORE_SECONDS = Metric(
    "state_restore_seconds", Kind.HISTOGRAM,
    "Time from opening a replica until it has caught up with its changelog.", ("store",),
)  # fmt: skip
STANDBY_LAG = Metric(
    "state_standby_lag_records", Kind.GAUGE, "Records that a replica is behind its changelog.", ("store", "partition"),
    "update-rate and the standby's lag",
)  # fmt: skip
SKIPPED_RECORDS = Metric(
    "state_skipped_records_total", Kind.COUNTER, "Changelog records that a replica skipped because they are not rows.",
    ("store", "partition"), "dropped-records-total",
)  # fmt: skip
LAST_SKIPPED_OFFSET = Metric(
    "state_last_skipped_offset", Kind.GAUGE, "Changelog offset of the last record that a replica skipped, -1 if none.",
    ("store", "partition"),
)  # fmt: skip
UNRANKED_ROWS = Metric(
    "state_unranked_rows", Kind.GAUGE, "Rows of a ranked store without a score; they are not ranked.",
    ("store", "partition"),
)  # fmt: skip
TASKS = Metric(
    "state_tasks", Kind.GAUGE, "Replicas by role and status.", ("role", "status"),
    "active-restoring-tasks, standby-updating-tasks",
)  # fmt: skip
INSTANCE_READY = Metric("state_instance_ready", Kind.GAUGE, "1 if every replica answers.", (), "state")
QUERY_SECONDS = Metric(
    "state_query_seconds", Kind.HISTOGRAM,
    "Time to answer a query for one row: from this node (local) or from another one (forwarded).",
    ("way",),
)  # fmt: skip
REFUSED_REQUESTS = Metric(
    "state_refused_requests_total",
    Kind.COUNTER,
    "Refused requests and connections, by problem type or by the reason for a connection.",
    ("reason",),
)
CONNECTIONS = Metric("state_connections", Kind.GAUGE, "Open connections to the node.")
FORWARDED_REQUESTS = Metric("state_forwarded_requests_total", Kind.COUNTER, "Queries sent to another node.")
HEDGED_REQUESTS = Metric(
    "state_hedged_requests_total", Kind.COUNTER, "Queries sent to a second node because the first was slow."
)
MAP_CORRECTIONS = Metric(
    "state_map_corrections_total",
    Kind.COUNTER,
    "Queries that another node redirected because it does not hold the rows.",
)
MEMBERS = Metric("state_members", Kind.GAUGE, "Nodes of the cluster, by the state of their heartbeats.", ("status",))
HEARTBEATS = Metric("state_heartbeats_total", Kind.COUNTER, "Heartbeats, by result.", ("result",))

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
        "state_rocksdb_flush_pending", Kind.GAUGE, "1 if a flush is due.", ("store",), "mem-table-flush-pending"
    ),
    "rocksdb.total-sst-files-size": Metric(
        "state_rocksdb_sst_bytes", Kind.GAUGE, "Bytes of table files on disk.", ("store",), "total-sst-files-size"
    ),
    "rocksdb.live-sst-files-size": Metric(
        "state_rocksdb_live_sst_bytes", Kind.GAUGE, "Bytes of table files in use.", ("store",), "live-sst-files-size"
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
        "state_rocksdb_compaction_pending", Kind.GAUGE, "1 if a compaction is due.", ("store",), "compaction-pending"
    ),
    "rocksdb.num-running-compactions": Metric(
        "state_rocksdb_running_compactions", Kind.GAUGE, "Running compactions.", ("store",),
        "num-running-compactions",
    ),
    "rocksdb.actual-delayed-write-rate": Metric(
        "state_rocksdb_delayed_write_bytes_per_second", Kind.GAUGE, "Rate to which writes are slowed, or 0.",
        ("store",), "write-stall-duration-avg",
    ),
    "rocksdb.background-errors": Metric(
        "state_rocksdb_background_errors", Kind.GAUGE, "Errors of flushes and compactions.", ("store",),
        "background-errors",
    ),
}  # fmt: skip
"""RocksDB's integer properties that are exported, read when they are scraped."""

ROCKSDB_CACHE_USAGE = Metric(
    "state_rocksdb_block_cache_usage_bytes", Kind.GAUGE, "Bytes in the process's block cache, including write buffers.",
    (), "block-cache-usage",
)  # fmt: skip
ROCKSDB_CACHE_PINNED = Metric(
    "state_rocksdb_block_cache_pinned_bytes", Kind.GAUGE, "Bytes of the block cache that can't be evicted.", (),
    "block-cache-pinned-usage",
)  # fmt: skip
ROCKSDB_CACHE_BOUND = Metric(
    "state_rocksdb_block_cache_bound_bytes", Kind.GAUGE, "Common bound of block cache and write buffers.", (),
    "block-cache-capacity",
)  # fmt: skip


def all_metrics() -> tuple[Metric, ...]:
    """Every metric in this table."""
    single = tuple(value for value in globals().values() if isinstance(value, Metric))
    return (*single, *ROCKSDB_PROPERTIES.values())
