"""The dashboard *State stores*: do the stores answer, how fast, how far behind, how big."""

from __future__ import annotations

from deploy.observability.panel import Dashboard, Panel, Query, Row, Variable

_NODE = 'instance=~"$instance"'
_STORE = f'{_NODE},store=~"$store"'


def _quantile(quantile: float, metric: str, by: str) -> str:
    return f"histogram_quantile({quantile}, sum by (le, {by}) (rate({metric}_bucket{{{_STORE}}}[$__rate_interval])))"


def _sum(metric: str, by: str = "store") -> str:
    return f"sum by ({by}) ({metric}{{{_STORE}}})"


_OVERVIEW = Row(
    "Overview",
    (
        Panel(
            "Nodes that answer for all they hold",
            (Query(f"sum(state_instance_ready{{{_NODE}}})"),),
            "short",
            "A node is ready once each of its replicas has caught up. Others answer for one that isn't.",
            kind="stat",
            width=6,
        ),
        Panel(
            "Worst lag",
            (Query(f"max(state_standby_lag_records{{{_STORE}}})"),),
            "short",
            "Changelog records that the most backward replica has still to apply.",
            kind="stat",
            width=6,
            thresholds=(1_000, 100_000),
        ),
        Panel(
            "Left to restore",
            (Query(f"sum(state_restore_remaining_records{{{_STORE}}})"),),
            "short",
            "Records of all restores under way together.",
            kind="stat",
            width=6,
        ),
        Panel(
            "RocksDB memory of its bound",
            (
                Query(
                    f"max(state_rocksdb_block_cache_usage_bytes{{{_NODE}}}"
                    f" / state_rocksdb_block_cache_bound_bytes{{{_NODE}}})"
                ),
            ),
            "percentunit",
            "Block cache and write buffers share one bound. Near 1 is normal; pinned bytes alone should not fill it.",
            kind="gauge",
            width=6,
            thresholds=(0.95, 1.05),
        ),
    ),
)

_QUERIES = Row(
    "Queries",
    (
        Panel(
            "Reads a second",
            (
                Query(
                    f"sum by (store, op) (rate(state_store_operation_seconds_count{{{_STORE}}}[$__rate_interval]))",
                    "{{store}} {{op}}",
                ),
            ),
            "reqps",
            "Operations on this node's own replicas.",
        ),
        Panel(
            "Read latency",
            tuple(
                Query(
                    _quantile(quantile, "state_store_operation_seconds", "store, op"),
                    f"{{{{store}}}} {{{{op}}}} {name}",
                )
                for quantile, name in ((0.5, "p50"), (0.99, "p99"))
            ),
            "s",
            "Time in the store; the way over the network comes on top.",
        ),
        Panel(
            "Time to answer for one row",
            tuple(
                Query(
                    f"histogram_quantile({quantile}, sum by (le, way)"
                    f" (rate(state_query_seconds_bucket{{{_NODE}}}[$__rate_interval])))",
                    f"{{{{way}}}} {name}",
                )
                for quantile, name in ((0.5, "p50"), (0.99, "p99"))
            ),
            "s",
            "From a request's arrival to its answer, from here or by asking another node.",
        ),
        Panel(
            "Refused a second",
            (
                Query(
                    f"sum by (reason) (rate(state_refused_requests_total{{{_NODE}}}[$__rate_interval]))",
                    "{{reason}}",
                ),
            ),
            "reqps",
            "Requests and connections, by problem type. Steps say that somebody asks too much, or without a right to.",
        ),
        Panel(
            "Connections",
            (Query(f"state_connections{{{_NODE}}}", "{{instance}}"),),
            "short",
            "Open now. STOREKEEPER_MAX_CONNECTIONS bounds them.",
        ),
        Panel(
            "Forwarded a second",
            (
                Query(
                    f"sum by (instance) (rate(state_forwarded_requests_total{{{_NODE}}}[$__rate_interval]))",
                    "{{instance}}",
                ),
            ),
            "reqps",
            "Point queries that another node answered. Clients that know the owners need none.",
        ),
    ),
)

_REPLICAS = Row(
    "Replicas",
    (
        Panel(
            "Lag by partition",
            (Query(f"state_standby_lag_records{{{_STORE}}}", "{{instance}} {{store}}-{{partition}}"),),
            "short",
            "Watch single partitions: a mean hides the one that stands still.",
        ),
        Panel(
            "Restore progress",
            (Query(f"state_restore_remaining_records{{{_STORE}}}", "{{instance}} {{store}}-{{partition}}"),),
            "short",
            "Records left of each restore. A line that doesn't fall is a changelog that can't be read.",
        ),
        Panel(
            "Restored records a second",
            (Query(f"sum by (store) (rate(state_restore_records_total{{{_STORE}}}[$__rate_interval]))", "{{store}}"),),
            "short",
            "How fast restores are.",
        ),
        Panel(
            "Replicas by status",
            (Query(f"sum by (role, status) (state_tasks{{{_NODE}}})", "{{role}} {{status}}"),),
            "short",
            "Failed and suspended replicas need a look: /state/lag says why.",
        ),
        Panel(
            "Dropped records",
            (
                Query(
                    f"sum by (store, reason) (increase(state_dropped_records_total{{{_STORE}}}[$__rate_interval]))",
                    "{{store}} {{reason}}",
                ),
            ),
            "short",
            "Records without a key, too late, or expired.",
        ),
        Panel(
            "Cache hit ratio",
            (
                Query(
                    f'sum by (store) (rate(state_cache_lookups_total{{{_STORE},result="hit"}}[$__rate_interval]))'
                    f" / sum by (store) (rate(state_cache_lookups_total{{{_STORE}}}[$__rate_interval]))",
                    "{{store}}",
                ),
            ),
            "percentunit",
            "Of the record caches, where an application uses the stores as a library. Nodes have none.",
        ),
    ),
)

_ROCKSDB = Row(
    "RocksDB",
    (
        Panel(
            "Rows",
            (Query(_sum("state_rocksdb_estimated_keys"), "{{store}}"),),
            "short",
            "RocksDB's estimate, all replicas together. A line that only rises belongs to a store without clean-up.",
        ),
        Panel(
            "Bytes on disk",
            (
                Query(_sum("state_rocksdb_sst_bytes"), "{{store}}"),
                Query(_sum("state_rocksdb_live_sst_bytes"), "{{store}} live"),
            ),
            "bytes",
            "Table files, and the part of them in use.",
        ),
        Panel(
            "Growth a day",
            (Query(f"sum by (store) (deriv(state_rocksdb_live_sst_bytes{{{_STORE}}}[6h])) * 86400", "{{store}}"),),
            "bytes",
            "What six hours' slope adds up to in a day.",
        ),
        Panel(
            "Memory",
            (
                Query(f"state_rocksdb_block_cache_usage_bytes{{{_NODE}}}", "{{instance}} cache and write buffers"),
                Query(f"state_rocksdb_block_cache_pinned_bytes{{{_NODE}}}", "{{instance}} pinned"),
                Query(f"state_rocksdb_block_cache_bound_bytes{{{_NODE}}}", "{{instance}} bound"),
                Query(_sum("state_rocksdb_table_readers_bytes", "instance"), "{{instance}} table readers"),
            ),
            "bytes",
            "One bound for all stores of a process.",
        ),
        Panel(
            "Stalls",
            (
                Query(_sum("state_rocksdb_delayed_write_bytes_per_second"), "{{store}} writes slowed to"),
                Query(_sum("state_rocksdb_pending_compaction_bytes"), "{{store}} waiting for compaction"),
            ),
            "bytes",
            "A write rate above 0 means that RocksDB slows the follower down: see the profile write_heavy.",
        ),
        Panel(
            "Background errors",
            (Query(_sum("state_rocksdb_background_errors"), "{{store}}"),),
            "short",
            "Flushes and compactions that failed: the disk is full or broken.",
            thresholds=(1, 10),
        ),
    ),
)

STATE_STORES = Dashboard(
    uid="storekeeper-stores",
    title="Storekeeper: State stores",
    about="Query nodes and their stores: do they answer, how fast, how far behind, how big.",
    variables=(Variable("instance", "state_instance_ready"), Variable("store", "state_standby_lag_records")),
    rows=(_OVERVIEW, _QUERIES, _REPLICAS, _ROCKSDB),
)
