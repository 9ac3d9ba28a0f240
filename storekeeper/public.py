"""The public names of the library, for `from storekeeper import ...`."""

# ruff: noqa: PLC0414 (an alias marks a name that is passed on)

from storekeeper.client.async_client import AsyncStateClient as AsyncStateClient
from storekeeper.client.client import StateClient as StateClient
from storekeeper.client.credentials import Credentials as Credentials
from storekeeper.client.readings import Reading as Reading
from storekeeper.errors import StateError as StateError
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
from storekeeper.stores.set_aside import set_aside as set_aside
from storekeeper.stores.suppliers import LruSupplier as LruSupplier
from storekeeper.stores.suppliers import MemorySupplier as MemorySupplier
from storekeeper.stores.suppliers import RedisSupplier as RedisSupplier
from storekeeper.stores.suppliers import RocksDBSupplier as RocksDBSupplier
from storekeeper.stores.windowed import Windowed as Windowed
