"""What holds the rows of a task's stores: a folder of RocksDB, the memory of the worker process, or a Redis server.

Each is a replica of the store's changelog, with its position in it: see `local_store`; or has no changelog: see
`unlogged_store`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import structlog

from storekeeper.apps.settings import AppSettings
from storekeeper.errors import ConfigurationError, StorageError, StoreCorruptedError
from storekeeper.private_files import read_secret
from storekeeper.stores.bytes_store import BytesStore
from storekeeper.stores.profile import Profile
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.stores.rocksdb_options import RocksDBOptions
from storekeeper.stores.rocksdb_sealed import open_sealed
from storekeeper.stores.set_aside import set_aside
from storekeeper.stores.unwanted import remove_unwanted
from storekeeper.topology.plan import Topology
from storekeeper.topology.store import StoreBackend
from storekeeper.topology.task_stores import memory_store
from storekeeper.topology.topology_store import TopologyStore

if TYPE_CHECKING:
    from types import ModuleType

_LOCK_PATIENCE_S = 20.0
_LOCK_PAUSE_S = 0.1

_log = structlog.get_logger(__name__)

_kept: dict[Path, BytesStore] = {}
"""The stores in this process's memory, by the folder that they would have on disk."""


class TaskBackend(Protocol):
    """Holds the rows of one store of one task."""

    def open(self) -> BytesStore:
        """The rows as they were left; none at first.

        Raises:
            StoreCorruptedError: they are damaged: `set_aside` them.
            StorageError: the disk or server failed, or another process has them open.
        """
        ...

    def close(self, store: BytesStore) -> None:
        """Closes what `open` gave. Safe to call twice."""
        ...

    def remove(self) -> None:
        """Deletes the rows of the closed store."""
        ...

    def set_aside(self) -> str:
        """Puts the damaged rows of the closed store out of the way; returns where they are now."""
        ...


def opened(holder: TaskBackend, store: str) -> BytesStore:
    """Opens a store. A damaged one is set aside, and an empty one takes its place.

    Args:
        holder: holds its rows.
        store: its name, for the log.

    Raises:
        StorageError: as `TaskBackend.open`.
    """
    while True:
        try:
            return holder.open()
        except StoreCorruptedError as error:
            put_aside(holder, store, error)


def put_aside(holder: TaskBackend, store: str, error: StoreCorruptedError) -> None:
    """Puts the damaged rows of a closed store out of the way, and says so in the log."""
    _log.warning("local_store_damaged", store=store, aside=holder.set_aside(), why=str(error))


def emptied(holder: TaskBackend, rows: BytesStore, store: str) -> BytesStore:
    """Closes an open store, deletes its rows, and opens it again."""
    holder.close(rows)
    holder.remove()
    return opened(holder, store)


@dataclass(frozen=True, slots=True)
class RocksDBBackend:
    """Rows in a folder. `opener` opens it."""

    spec: TopologyStore
    folder: Path
    opener: Callable[[Path, str, RocksDBOptions], BytesStore] = open_sealed

    def open(self) -> BytesStore:
        """Waits if the store is locked: an abandoned attempt may still have it open for a moment.

        Files that an erasure doesn't want any more are deleted first.
        """
        remove_unwanted(self.folder)
        self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        options = RocksDBOptions(profile=Profile(self.spec.options.profile))
        deadline_s = time.monotonic() + _LOCK_PATIENCE_S
        while True:
            try:
                return self.opener(self.folder, self.spec.name, options)
            except StoreCorruptedError:
                raise
            except StorageError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(_LOCK_PAUSE_S)

    def close(self, store: BytesStore) -> None:
        """Closes the database."""
        store.close()

    def remove(self) -> None:
        """Deletes the folder."""
        shutil.rmtree(self.folder)

    def set_aside(self) -> str:
        """Renames the folder, so that it can be examined."""
        return str(set_aside(self.folder))


@dataclass(frozen=True, slots=True)
class MemoryBackend:
    """Rows in the worker process, for as long as it lives. Another process has a copy of its own."""

    spec: TopologyStore
    folder: Path

    def open(self) -> BytesStore:
        """The rows that this process has."""
        if self.folder not in _kept:
            _kept[self.folder] = memory_store(self.spec)
        return _kept[self.folder]

    def close(self, store: BytesStore) -> None:
        """Keeps the rows for the next batch."""

    def remove(self) -> None:
        """Forgets the rows."""
        _kept.pop(self.folder, None)

    def set_aside(self) -> str:
        """Forgets the rows."""
        self.remove()
        return "nowhere"


@dataclass(frozen=True, slots=True)
class RedisBackend:
    """Rows on a Redis server at `url`, where other programs may read them. `place` names the rows there."""

    name: str
    url: str
    place: str

    def open(self) -> BytesStore:
        """Any other process that still has the store open can't write to it any more."""
        return _redis().open_redis(self.url, self.name, self.place)

    def close(self, store: BytesStore) -> None:
        """Closes the connection."""
        store.close()

    def remove(self) -> None:
        """Deletes the rows."""
        _redis().delete_rows(self.url, self.place)

    def set_aside(self) -> str:
        """Deletes the rows. The server's other keys tell no more of what deleted some of them."""
        self.remove()
        return "nowhere"


def task_backend(spec: TopologyStore, folder: Path, settings: AppSettings, app: str, partition: int) -> TaskBackend:
    """What holds the rows of a store of a task.

    Raises:
        ConfigurationError: it is on Redis, and no file names a server.
    """
    match spec.options.backend:
        case StoreBackend.MEMORY:
            return MemoryBackend(spec, folder)
        case StoreBackend.REDIS:
            place = f"{_places_of(app, settings.generation)}{spec.name}:{partition}"
            return RedisBackend(spec.name, _redis_url(settings), place)
        case _:
            # Without a changelog nothing restores rows that were not sealed when the process died.
            return RocksDBBackend(spec, folder, open_sealed if spec.options.logging else open_rocksdb)


def check_backends(topology: Topology, settings: AppSettings) -> None:
    """Checks, before an app starts, that the server of its stores on Redis can hold them.

    Raises:
        ConfigurationError: no file names a server, it evicts keys, or the package redis is not installed.
        StorageError: it can't be reached.
    """
    stores = [spec for sub in topology.sub_topologies for spec in sub.stores]
    if any(spec.options.backend == StoreBackend.REDIS for spec in stores):
        _redis().check_server(_redis_url(settings))


def delete_remote_rows(app: str, settings: AppSettings) -> None:
    """Deletes what the stores of a generation of an app have on Redis, if there is a server.

    Raises:
        StorageError: it can't be reached.
    """
    if settings.redis_url_file.exists():
        _redis().delete_rows_of(_redis_url(settings), _places_of(app, settings.generation))


def _places_of(app: str, generation: int) -> str:
    # Names can't hold a colon.
    return f"{app}:gen-{generation}:"


def _redis_url(settings: AppSettings) -> str:
    path = settings.redis_url_file
    try:
        return read_secret(path, "the URL of Redis in").decode().strip()
    except FileNotFoundError as error:
        msg = f"a store is on Redis: put the server's URL, such as redis://127.0.0.1:6379/0, into {path} (mode 0600)"
        raise ConfigurationError(msg) from error


def _redis() -> ModuleType:
    # Apps without such a store don't need the package.
    try:
        from storekeeper.stores import redis  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError("stores on Redis need the package redis: pip install 'storekeeper[redis]'") from error
    return redis
