"""The public names of the library, for `from state import ...`."""

# ruff: noqa: PLC0414 (an alias marks a name that is passed on)

from state.client.async_client import AsyncStateClient as AsyncStateClient
from state.client.client import StateClient as StateClient
from state.client.credentials import Credentials as Credentials
from state.client.readings import Reading as Reading
from state.errors import StateError as StateError
from state.serdes.integers import Int64Serde as Int64Serde
from state.serdes.json import JsonSerde as JsonSerde
from state.serdes.serde import BytesSerde as BytesSerde
from state.serdes.serde import Serde as Serde
from state.serdes.serde import Utf8Serde as Utf8Serde
from state.serdes.timestamped import ValueAndTimestamp as ValueAndTimestamp
from state.serdes.versioned import SchemaVersions as SchemaVersions
from state.serdes.versioned import VersionedSerde as VersionedSerde
from state.stores.builder import StoreBuilder as StoreBuilder
from state.stores.caching import CacheBudget as CacheBudget
from state.stores.changelog_writer import InMemoryChangelog as InMemoryChangelog
from state.stores.composite import composite as composite
from state.stores.set_aside import set_aside as set_aside
from state.stores.suppliers import LruSupplier as LruSupplier
from state.stores.suppliers import MemorySupplier as MemorySupplier
from state.stores.suppliers import RedisSupplier as RedisSupplier
from state.stores.suppliers import RocksDBSupplier as RocksDBSupplier
from state.stores.windowed import Windowed as Windowed
