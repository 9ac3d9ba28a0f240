"""State stores for PySpark streams: queryable, migratable, verifiable.

What a program imports is here, and in `storekeeper.errors`, `storekeeper.schemas` and `storekeeper.testkit`. Other
modules may change without notice. A name is loaded when it is first used, so that a program which only queries nodes
loads neither stores nor Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from storekeeper.apps.checked_table import CheckedColumn as CheckedColumn
    from storekeeper.apps.checked_table import CheckedTable as CheckedTable
    from storekeeper.apps.checked_table import Condition as Condition
    from storekeeper.apps.checked_table import Leaks as Leaks
    from storekeeper.apps.checked_table import WithTable as WithTable
    from storekeeper.apps.records import Code as Code
    from storekeeper.apps.records import Count as Count
    from storekeeper.apps.records import KeySerde as KeySerde
    from storekeeper.apps.records import Name as Name
    from storekeeper.apps.records import Number as Number
    from storekeeper.apps.records import Text as Text
    from storekeeper.apps.records import TimeMs as TimeMs
    from storekeeper.apps.records import ValueSerde as ValueSerde
    from storekeeper.apps.records import all_of as all_of
    from storekeeper.apps.records import has_key as has_key
    from storekeeper.apps.records import has_key_and_value as has_key_and_value
    from storekeeper.apps.records import keyed_by as keyed_by
    from storekeeper.apps.records import not_ahead as not_ahead
    from storekeeper.apps.settings import AppSettings as AppSettings
    from storekeeper.apps.topology_app import topology_app as topology_app
    from storekeeper.client import AccessDeniedError as AccessDeniedError
    from storekeeper.client import AsyncStateClient as AsyncStateClient
    from storekeeper.client import ClientLimits as ClientLimits
    from storekeeper.client import Credentials as Credentials
    from storekeeper.client import Freshest as Freshest
    from storekeeper.client import Listing as Listing
    from storekeeper.client import NodeLag as NodeLag
    from storekeeper.client import Page as Page
    from storekeeper.client import Rank as Rank
    from storekeeper.client import RankedRow as RankedRow
    from storekeeper.client import Reading as Reading
    from storekeeper.client import Row as Row
    from storekeeper.client import SessionRow as SessionRow
    from storekeeper.client import StateClient as StateClient
    from storekeeper.client import TooStaleError as TooStaleError
    from storekeeper.client import VersionRow as VersionRow
    from storekeeper.client import WindowedRow as WindowedRow
    from storekeeper.errors import StateError as StateError
    from storekeeper.generations.migration import StoreMigration as StoreMigration
    from storekeeper.serdes.integers import Int64Serde as Int64Serde
    from storekeeper.serdes.json import JsonSerde as JsonSerde
    from storekeeper.serdes.serde import BytesSerde as BytesSerde
    from storekeeper.serdes.serde import Serde as Serde
    from storekeeper.serdes.serde import Utf8Serde as Utf8Serde
    from storekeeper.serdes.timestamped import ValueAndTimestamp as ValueAndTimestamp
    from storekeeper.serdes.versioned import SchemaVersions as SchemaVersions
    from storekeeper.serdes.versioned import VersionedSerde as VersionedSerde
    from storekeeper.stores.builder import StoreBuilder as StoreBuilder
    from storekeeper.stores.caching import CacheBudget as CacheBudget
    from storekeeper.stores.changelog_writer import InMemoryChangelog as InMemoryChangelog
    from storekeeper.stores.composite import composite as composite
    from storekeeper.stores.key_value import KeyValueStore as KeyValueStore
    from storekeeper.stores.session import SessionStore as SessionStore
    from storekeeper.stores.set_aside import set_aside as set_aside
    from storekeeper.stores.suppliers import LruSupplier as LruSupplier
    from storekeeper.stores.suppliers import MemorySupplier as MemorySupplier
    from storekeeper.stores.suppliers import RedisSupplier as RedisSupplier
    from storekeeper.stores.suppliers import RocksDBSupplier as RocksDBSupplier
    from storekeeper.stores.ttl import TtlKeyValueStore as TtlKeyValueStore
    from storekeeper.stores.versioned import VersionedKeyValueStore as VersionedKeyValueStore
    from storekeeper.stores.window import WindowStore as WindowStore
    from storekeeper.stores.windowed import Windowed as Windowed
    from storekeeper.topology import BufferConfig as BufferConfig
    from storekeeper.topology import BufferFullStrategy as BufferFullStrategy
    from storekeeper.topology import CrashStep as CrashStep
    from storekeeper.topology import DropReason as DropReason
    from storekeeper.topology import EmitStrategy as EmitStrategy
    from storekeeper.topology import GlobalTable as GlobalTable
    from storekeeper.topology import JoinWindows as JoinWindows
    from storekeeper.topology import KGroupedStream as KGroupedStream
    from storekeeper.topology import KGroupedTable as KGroupedTable
    from storekeeper.topology import KStream as KStream
    from storekeeper.topology import KTable as KTable
    from storekeeper.topology import OnError as OnError
    from storekeeper.topology import OutputRecord as OutputRecord
    from storekeeper.topology import Plan as Plan
    from storekeeper.topology import Processor as Processor
    from storekeeper.topology import ProcessorContext as ProcessorContext
    from storekeeper.topology import Store as Store
    from storekeeper.topology import StoreKind as StoreKind
    from storekeeper.topology import StreamsBuilder as StreamsBuilder
    from storekeeper.topology import SubTopology as SubTopology
    from storekeeper.topology import TimeKind as TimeKind
    from storekeeper.topology import Topology as Topology
    from storekeeper.topology import TopologyTestDriver as TopologyTestDriver
    from storekeeper.topology import hopping as hopping
    from storekeeper.topology import sessions as sessions
    from storekeeper.topology import sliding as sliding
    from storekeeper.topology import tumbling as tumbling
    from storekeeper.topology import until_limit as until_limit
    from storekeeper.topology import until_window_closes as until_window_closes
    from storekeeper.topology import with_key as with_key
    from storekeeper.topology import with_window as with_window

# The names of the block above, by the module that has them.
_MODULES = {
    "storekeeper.apps.checked_table": ("CheckedColumn", "CheckedTable", "Condition", "Leaks", "WithTable"),
    "storekeeper.apps.records": (
        "Code",
        "Count",
        "KeySerde",
        "Name",
        "Number",
        "Text",
        "TimeMs",
        "ValueSerde",
        "all_of",
        "has_key",
        "has_key_and_value",
        "keyed_by",
        "not_ahead",
    ),
    "storekeeper.apps.settings": ("AppSettings",),
    "storekeeper.apps.topology_app": ("topology_app",),
    "storekeeper.client": (
        "AccessDeniedError",
        "AsyncStateClient",
        "ClientLimits",
        "Credentials",
        "Freshest",
        "Listing",
        "NodeLag",
        "Page",
        "Rank",
        "RankedRow",
        "Reading",
        "Row",
        "SessionRow",
        "StateClient",
        "TooStaleError",
        "VersionRow",
        "WindowedRow",
    ),
    "storekeeper.errors": ("StateError",),
    "storekeeper.generations.migration": ("StoreMigration",),
    "storekeeper.serdes.integers": ("Int64Serde",),
    "storekeeper.serdes.json": ("JsonSerde",),
    "storekeeper.serdes.serde": ("BytesSerde", "Serde", "Utf8Serde"),
    "storekeeper.serdes.timestamped": ("ValueAndTimestamp",),
    "storekeeper.serdes.versioned": ("SchemaVersions", "VersionedSerde"),
    "storekeeper.stores.builder": ("StoreBuilder",),
    "storekeeper.stores.caching": ("CacheBudget",),
    "storekeeper.stores.changelog_writer": ("InMemoryChangelog",),
    "storekeeper.stores.composite": ("composite",),
    "storekeeper.stores.key_value": ("KeyValueStore",),
    "storekeeper.stores.session": ("SessionStore",),
    "storekeeper.stores.set_aside": ("set_aside",),
    "storekeeper.stores.suppliers": ("LruSupplier", "MemorySupplier", "RedisSupplier", "RocksDBSupplier"),
    "storekeeper.stores.ttl": ("TtlKeyValueStore",),
    "storekeeper.stores.versioned": ("VersionedKeyValueStore",),
    "storekeeper.stores.window": ("WindowStore",),
    "storekeeper.stores.windowed": ("Windowed",),
    "storekeeper.topology": (
        "BufferConfig",
        "BufferFullStrategy",
        "CrashStep",
        "DropReason",
        "EmitStrategy",
        "GlobalTable",
        "JoinWindows",
        "KGroupedStream",
        "KGroupedTable",
        "KStream",
        "KTable",
        "OnError",
        "OutputRecord",
        "Plan",
        "Processor",
        "ProcessorContext",
        "Store",
        "StoreKind",
        "StreamsBuilder",
        "SubTopology",
        "TimeKind",
        "Topology",
        "TopologyTestDriver",
        "hopping",
        "sessions",
        "sliding",
        "tumbling",
        "until_limit",
        "until_window_closes",
        "with_key",
        "with_window",
    ),
}
_NAMES = {name: module for module, names in _MODULES.items() for name in names}


def _load(name: str) -> Any:
    if name not in _NAMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    try:
        value = getattr(import_module(_NAMES[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != __name__:
            raise
        msg = f"{name} needs the package storekeeper: only storekeeper-client is installed"
        raise ImportError(msg) from error
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # a type checker that sees this takes any name
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
