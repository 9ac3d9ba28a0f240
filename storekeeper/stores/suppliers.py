"""Store suppliers: where a store's bytes live. A supplier opens backends by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from storekeeper.errors import ConfigurationError
from storekeeper.names import checked_name
from storekeeper.stores.bytes_store import BytesStore
from storekeeper.stores.lru import LruStore
from storekeeper.stores.memory import MemoryStore


class StoreSupplier(Protocol):
    """Opens the backend of a store."""

    def open(self, name: str) -> BytesStore:
        """The open backend; the same name finds the same rows again where the backend is persistent.

        Raises:
            InvalidNameError: the name can't name a store.
            StoreCorruptedError: the files are damaged.
        """
        ...


@dataclass(frozen=True, slots=True)
class MemorySupplier:
    """Sorted rows in the process's memory."""

    def open(self, name: str) -> BytesStore:
        """An empty store."""
        return MemoryStore(name)


@dataclass(frozen=True, slots=True)
class LruSupplier:
    """At most `max_entries` rows in the process's memory, the least recently used go first."""

    max_entries: int

    def open(self, name: str) -> BytesStore:
        """An empty store."""
        return LruStore(name, self.max_entries)


@dataclass(frozen=True, slots=True)
class RocksDBSupplier:
    """One RocksDB database a store, in a directory of the store's name.

    Attributes:
        directory: where the stores' directories are; made if missing.
        profile: what the stores are mostly used for: write_heavy, read_heavy, memory_constrained or balanced.
    """

    directory: Path | str
    profile: str = "balanced"

    def open(self, name: str) -> BytesStore:
        """The store's database, made if there is none yet.

        Raises:
            ConfigurationError: there is no such profile.
        """
        # Imported here, so that a program without RocksDB stores doesn't load the native library.
        from storekeeper.stores.profile import Profile  # noqa: PLC0415
        from storekeeper.stores.rocksdb import open_rocksdb  # noqa: PLC0415
        from storekeeper.stores.rocksdb_options import RocksDBOptions  # noqa: PLC0415

        if self.profile not in set(Profile):
            msg = f"RocksDB has no profile {self.profile!r}; use one of {', '.join(Profile)}"
            raise ConfigurationError(msg)
        return open_rocksdb(
            Path(self.directory) / checked_name(name), name, RocksDBOptions(profile=Profile(self.profile))
        )


@dataclass(frozen=True, slots=True)
class RedisSupplier:
    """Stores on a Redis server, each under a prefix of its own.

    Attributes:
        url: as redis-py takes it: `redis://127.0.0.1:6379/0`.
        prefix: put in front of every key, before the store's name.
    """

    url: str = field(repr=False)
    prefix: str = "storekeeper"

    def open(self, name: str) -> BytesStore:
        """The store's rows on the server.

        Raises:
            ConfigurationError: the server evicts keys when it is full.
            StorageError: the server can't be reached.
        """
        from storekeeper.stores.redis import open_redis  # noqa: PLC0415

        return open_redis(self.url, name, prefix=self.prefix)
