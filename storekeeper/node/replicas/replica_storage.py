"""Where replicas keep their rows: a directory per store partition, or memory; and how long a dropped replica's stay."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

import structlog

from storekeeper.clock import Clock
from storekeeper.errors import ConfigurationError
from storekeeper.names import checked_variant, store_of
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.stores.bytes_store import BytesStore
from storekeeper.stores.memory import MemoryStore
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.stores.rocksdb_options import RocksDBOptions
from storekeeper.stores.set_aside import set_aside

log = structlog.get_logger(__name__)

_SET_ASIDE = re.compile(r"(\d+)\.corrupt-(\d+)")


class ReplicaStorage(Protocol):
    """Opens and clears the stores of one node's replicas. At most one store per replica is open at a time."""

    def open(self, replica: ReplicaId) -> BytesStore:
        """Opens a replica's store, empty if there is none yet.

        Raises:
            StoreCorruptedError: it is damaged: `set_aside` it.
            StorageError: the disk failed, or another process has it open.
        """
        ...

    def wipe(self, replica: ReplicaId) -> None:
        """Deletes the rows of a closed store for good. After a crash half-way, `open` finishes it."""
        ...

    def set_aside(self, replica: ReplicaId) -> None:
        """Moves a closed, damaged store out of the way, and deletes the one that was set aside before it."""
        ...

    def erase(self, replica: ReplicaId) -> None:
        """Deletes the rows of a closed store for good, and what was set aside."""
        ...

    def set_aside_ms(self, replica: ReplicaId) -> int | None:
        """When the damaged store was set aside that is kept, epoch milliseconds; None if there is none."""
        ...

    def has_lost(self, replica: ReplicaId) -> bool:
        """Whether the files of an open store were removed: it answers until it is closed, and is gone then."""
        ...


class RocksDBStorage:
    """`<root>/<store>/<partition>/`, one RocksDB each. The directories are readable by their owner only."""

    def __init__(self, root: Path, clock: Clock, options: RocksDBOptions | None = None) -> None:
        self._root = root
        self._clock = clock
        self._options = options

    def path(self, replica: ReplicaId) -> Path:
        """The directory of a replica's store."""
        return self._root / checked_variant(replica.store) / str(replica.partition)

    def open(self, replica: ReplicaId) -> BytesStore:
        """Opens the replica's RocksDB."""
        path = self.path(replica)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _drop_wiped(path)
        return open_rocksdb(path, store_of(replica.store), self._options)

    def wipe(self, replica: ReplicaId) -> None:
        """Deletes the directory."""
        _wipe(self.path(replica))

    def set_aside(self, replica: ReplicaId) -> None:
        """Keeps the newest damaged copy for inspection."""
        path = self.path(replica)
        for entry in self._set_aside(replica):
            shutil.rmtree(entry)
        if path.exists():
            set_aside(path, clock=self._clock)

    def erase(self, replica: ReplicaId) -> None:
        """Deletes the directory, and the damaged copy."""
        self.wipe(replica)
        for entry in self._set_aside(replica):
            shutil.rmtree(entry)

    def set_aside_ms(self, replica: ReplicaId) -> int | None:
        """The time in the folder's name."""
        return max((int(entry.name.rpartition("-")[2]) for entry in self._set_aside(replica)), default=None)

    def _set_aside(self, replica: ReplicaId) -> list[Path]:
        path = self.path(replica)
        found = ((entry, _SET_ASIDE.fullmatch(entry.name)) for entry in path.parent.glob("*"))
        return [entry for entry, match in found if match and match[1] == path.name]

    def has_lost(self, replica: ReplicaId) -> bool:
        """Whether the file is gone without which RocksDB opens nothing."""
        return not (self.path(replica) / "CURRENT").exists()


def check_no_links(root: Path) -> None:
    """Checks that no store of a node lies elsewhere, where a wipe would delete files that aren't the node's.

    Raises:
        ConfigurationError: a folder of a store or of a partition is a symbolic link.
    """
    for path in (*root.glob("*"), *root.glob("*/*")):
        if path.is_symlink():
            msg = f"{path} is a symbolic link: remove it, and the node restores the store from its changelog"
            raise ConfigurationError(msg)


class MemoryStorage:
    """Rows in the process's memory: restored again after each start."""

    def open(self, replica: ReplicaId) -> BytesStore:
        """A new, empty store."""
        return MemoryStore(store_of(replica.store))

    def wipe(self, replica: ReplicaId) -> None:
        """Nothing to do: a store that was closed is gone."""

    def set_aside(self, replica: ReplicaId) -> None:
        """Nothing to do."""

    def erase(self, replica: ReplicaId) -> None:
        """Nothing to do."""

    def set_aside_ms(self, replica: ReplicaId) -> int | None:
        """None: nothing is kept."""
        del replica
        return None

    def has_lost(self, replica: ReplicaId) -> bool:
        """Memory loses nothing."""
        del replica
        return False


KEEP_S = 3600.0
"""How long the rows of a replica stay that a node no longer holds."""


class RetainedReplicas:
    """The rows of replicas that a node no longer holds: kept for a while, so that it is warm if it gets them back.

    Deletes directories `<root>/<store>/<partition>` that have belonged to no replica for `keep_s` seconds, and the
    damaged copies beside them: an erasure reaches the replicas that nodes hold, and nobody would delete these.

    The time counts from when this process first saw the directory unused. Belongs to one thread.
    """

    def __init__(self, root: Path, clock: Clock, keep_s: float = KEEP_S) -> None:
        self._root = root
        self._clock = clock
        self._keep_s = keep_s
        self._since_s: dict[Path, float] = {}

    def sweep(self, held: Collection[ReplicaId], is_kept: Callable[[str], bool] = lambda _: False) -> None:
        """Looks through the directories once. `held` are in use. `is_kept` says whether the rows of a store or variant
        stay: they may be the last copy.
        """
        now_s = self._clock.monotonic_s()
        in_use = {self._root / replica.store / str(replica.partition) for replica in held}
        unused = [
            path
            for path in self._root.glob("*/*")
            if (replica := _replica_folder(path)) and replica not in in_use and not is_kept(path.parent.name)
        ]
        self._since_s = {path: self._since_s.get(path, now_s) for path in unused}
        for path, since_s in list(self._since_s.items()):
            if now_s - since_s >= self._keep_s:
                self._delete(path)

    def _delete(self, path: Path) -> None:
        try:
            _wipe(path)
        except OSError as error:
            log.warning("retained_replica_stays", path=str(path), error=error.strerror)
            return
        del self._since_s[path]
        log.info("retained_replica_deleted", path=str(path))


def _replica_folder(path: Path) -> Path | None:
    """The folder of the replica whose rows or damaged copy a folder has; None if it is another."""
    name = match[1] if (match := _SET_ASIDE.fullmatch(path.name)) else path.name
    return path.with_name(name) if name.isdecimal() else None


def _wipe(path: Path) -> None:
    """Deletes a store's directory. Renames it first, so that a crash never leaves half a store under its name."""
    _drop_wiped(path)
    if path.exists():
        path.rename(_wiped(path))
        _drop_wiped(path)


def _drop_wiped(path: Path) -> None:
    if _wiped(path).exists():
        shutil.rmtree(_wiped(path))


def _wiped(path: Path) -> Path:
    return path.with_name(f"{path.name}.wiped")
