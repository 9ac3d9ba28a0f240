"""State stores, changelogs, replicas, queries, snapshots and maintenance: the library and the serving node.

What is listed here is the public interface of the store library. Each name is loaded when it is first used, so that a
program which only reads settings or manifests loads neither RocksDB nor Redis.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from state.changelog.writer import KafkaChangelogWriter
    from state.client.async_client import AsyncStateClient
    from state.client.client import StateClient
    from state.client.credentials import Credentials
    from state.client.readings import Reading
    from state.clock import Clock, ManualClock, SystemClock
    from state.errors import StateError
    from state.serdes.avro import AvroSerde
    from state.serdes.integers import Int64Serde, UInt32Serde, UInt64Serde
    from state.serdes.json import JsonSerde
    from state.serdes.serde import BytesSerde, Serde, Utf8Serde
    from state.serdes.timestamped import TimestampedSerde, ValueAndTimestamp
    from state.serdes.versioned import SchemaVersions, VersionedSerde
    from state.stores.builder import StoreBuilder
    from state.stores.bytes_store import BytesIterator, BytesStore
    from state.stores.caching import CacheBudget
    from state.stores.changelog_writer import ChangelogRecord, ChangelogWriter, InMemoryChangelog
    from state.stores.commit import Committer
    from state.stores.composite import (
        CompositeReadOnlyKeyValueStore,
        CompositeReadOnlySessionStore,
        CompositeReadOnlyWindowStore,
    )
    from state.stores.global_store import GlobalStore
    from state.stores.key_value import KeyValueStore, KeyValueTransaction
    from state.stores.read_only import (
        ReadOnlyKeyValueStore,
        ReadOnlySessionStore,
        ReadOnlyWindowStore,
        Windowed,
        read_only_key_value,
        read_only_session,
        read_only_window,
    )
    from state.stores.record_context import RecordContext
    from state.stores.rewriting import LazyRewriter, RewriteStep
    from state.stores.rocksdb_options import Profile, RocksDBMemory, RocksDBOptions, bound_process_memory
    from state.stores.session import SessionStore
    from state.stores.set_aside import set_aside
    from state.stores.store_iterator import StoreIterator
    from state.stores.suppliers import LruSupplier, MemorySupplier, RedisSupplier, RocksDBSupplier, StoreSupplier
    from state.stores.ttl import TtlKeyValueStore
    from state.stores.versioned import VersionedKeyValueStore, VersionedRecord
    from state.stores.window import WindowStore
    from state.tables.aggregator import Aggregator, count, reduction, total
    from state.tables.change import Change, TableRecord
    from state.tables.emit_strategy import EmitStrategy
    from state.tables.grouped_table import GroupedTable, TableAggregation
    from state.tables.session_aggregation import SessionAggregation
    from state.tables.sliding_aggregation import SlidingWindowAggregation
    from state.tables.suppress import (
        BufferConfig,
        BufferFullStrategy,
        SuppressedTable,
        until_time_limit,
        until_window_closes,
    )
    from state.tables.table import KTable, SourceTable, key_matches
    from state.tables.time_ordered_buffer import windowed_key_bytes
    from state.tables.windowed_aggregation import WindowedAggregation
    from state.tables.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

_MODULES = {
    "state.changelog.writer": ("KafkaChangelogWriter",),
    "state.client.async_client": ("AsyncStateClient",),
    "state.client.client": ("StateClient",),
    "state.client.credentials": ("Credentials",),
    "state.client.readings": ("Reading",),
    "state.clock": (
        "Clock",
        "ManualClock",
        "SystemClock",
    ),
    "state.errors": ("StateError",),
    "state.serdes.avro": ("AvroSerde",),
    "state.serdes.integers": (
        "Int64Serde",
        "UInt32Serde",
        "UInt64Serde",
    ),
    "state.serdes.json": ("JsonSerde",),
    "state.serdes.serde": (
        "BytesSerde",
        "Serde",
        "Utf8Serde",
    ),
    "state.serdes.timestamped": (
        "TimestampedSerde",
        "ValueAndTimestamp",
    ),
    "state.serdes.versioned": (
        "SchemaVersions",
        "VersionedSerde",
    ),
    "state.stores.builder": ("StoreBuilder",),
    "state.stores.bytes_store": (
        "BytesIterator",
        "BytesStore",
    ),
    "state.stores.caching": ("CacheBudget",),
    "state.stores.changelog_writer": (
        "ChangelogRecord",
        "ChangelogWriter",
        "InMemoryChangelog",
    ),
    "state.stores.commit": ("Committer",),
    "state.stores.composite": (
        "CompositeReadOnlyKeyValueStore",
        "CompositeReadOnlySessionStore",
        "CompositeReadOnlyWindowStore",
    ),
    "state.stores.global_store": ("GlobalStore",),
    "state.stores.key_value": (
        "KeyValueStore",
        "KeyValueTransaction",
    ),
    "state.stores.read_only": (
        "ReadOnlyKeyValueStore",
        "ReadOnlySessionStore",
        "ReadOnlyWindowStore",
        "Windowed",
        "read_only_key_value",
        "read_only_session",
        "read_only_window",
    ),
    "state.stores.record_context": ("RecordContext",),
    "state.stores.rewriting": (
        "LazyRewriter",
        "RewriteStep",
    ),
    "state.stores.rocksdb_options": (
        "Profile",
        "RocksDBMemory",
        "RocksDBOptions",
        "bound_process_memory",
    ),
    "state.stores.session": ("SessionStore",),
    "state.stores.set_aside": ("set_aside",),
    "state.stores.store_iterator": ("StoreIterator",),
    "state.stores.suppliers": (
        "LruSupplier",
        "MemorySupplier",
        "RedisSupplier",
        "RocksDBSupplier",
        "StoreSupplier",
    ),
    "state.stores.ttl": ("TtlKeyValueStore",),
    "state.stores.versioned": (
        "VersionedKeyValueStore",
        "VersionedRecord",
    ),
    "state.stores.window": ("WindowStore",),
    "state.tables.aggregator": (
        "Aggregator",
        "count",
        "reduction",
        "total",
    ),
    "state.tables.change": (
        "Change",
        "TableRecord",
    ),
    "state.tables.emit_strategy": ("EmitStrategy",),
    "state.tables.grouped_table": (
        "GroupedTable",
        "TableAggregation",
    ),
    "state.tables.session_aggregation": ("SessionAggregation",),
    "state.tables.sliding_aggregation": ("SlidingWindowAggregation",),
    "state.tables.suppress": (
        "BufferConfig",
        "BufferFullStrategy",
        "SuppressedTable",
        "until_time_limit",
        "until_window_closes",
    ),
    "state.tables.table": (
        "KTable",
        "SourceTable",
        "key_matches",
    ),
    "state.tables.time_ordered_buffer": ("windowed_key_bytes",),
    "state.tables.windowed_aggregation": ("WindowedAggregation",),
    "state.tables.windows": (
        "SessionWindows",
        "SlidingWindows",
        "TimeWindows",
        "UnlimitedWindows",
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Aggregator",
    "AsyncStateClient",
    "AvroSerde",
    "BufferConfig",
    "BufferFullStrategy",
    "BytesIterator",
    "BytesSerde",
    "BytesStore",
    "CacheBudget",
    "Change",
    "ChangelogRecord",
    "ChangelogWriter",
    "Clock",
    "Committer",
    "CompositeReadOnlyKeyValueStore",
    "CompositeReadOnlySessionStore",
    "CompositeReadOnlyWindowStore",
    "Credentials",
    "EmitStrategy",
    "GlobalStore",
    "GroupedTable",
    "InMemoryChangelog",
    "Int64Serde",
    "JsonSerde",
    "KTable",
    "KafkaChangelogWriter",
    "KeyValueStore",
    "KeyValueTransaction",
    "LazyRewriter",
    "LruSupplier",
    "ManualClock",
    "MemorySupplier",
    "Profile",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyWindowStore",
    "Reading",
    "RecordContext",
    "RedisSupplier",
    "RewriteStep",
    "RocksDBMemory",
    "RocksDBOptions",
    "RocksDBSupplier",
    "SchemaVersions",
    "Serde",
    "SessionAggregation",
    "SessionStore",
    "SessionWindows",
    "SlidingWindowAggregation",
    "SlidingWindows",
    "SourceTable",
    "StateClient",
    "StateError",
    "StoreBuilder",
    "StoreIterator",
    "StoreSupplier",
    "SuppressedTable",
    "SystemClock",
    "TableAggregation",
    "TableRecord",
    "TimeWindows",
    "TimestampedSerde",
    "TtlKeyValueStore",
    "UInt32Serde",
    "UInt64Serde",
    "UnlimitedWindows",
    "Utf8Serde",
    "ValueAndTimestamp",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "VersionedSerde",
    "WindowStore",
    "Windowed",
    "WindowedAggregation",
    "bound_process_memory",
    "count",
    "key_matches",
    "read_only_key_value",
    "read_only_session",
    "read_only_window",
    "reduction",
    "set_aside",
    "total",
    "until_time_limit",
    "until_window_closes",
    "windowed_key_bytes",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
