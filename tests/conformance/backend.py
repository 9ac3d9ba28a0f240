"""The backends that cases run on."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import redis

from harness.waiting import eventually
from storekeeper.stores.bytes_store import BytesStore
from storekeeper.stores.memory import MemoryStore
from storekeeper.stores.profile import Profile
from storekeeper.stores.redis import open_redis
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.stores.rocksdb_options import RocksDBOptions
from storekeeper.stores.rocksdb_sealed import open_sealed

_numbers = count()
_SMALL = RocksDBOptions(profile=Profile.MEMORY_CONSTRAINED)


@dataclass(frozen=True, slots=True)
class Backend:
    """A kind of backend with a place of its own for one case. A `StoreSupplier`.

    Attributes:
        kind: memory, rocksdb, unsealed or redis.
        opener: opens a store there, by its name.
        persistent: whether rows outlive a close; where they don't, a reopened store is restored from its changelog.
        directory: scratch space.
    """

    kind: str
    opener: Callable[[str], BytesStore]
    persistent: bool
    directory: Path

    def open(self, name: str) -> BytesStore:
        """The store of that name, made if there is none yet."""
        return self.opener(name)

    def part(self, part: str) -> Backend:
        """A place of its own on the same backend."""
        return replace(self, opener=lambda name: self.opener(f"{name}-{part}"))


@dataclass(frozen=True, slots=True)
class Backends:
    """The backends that are there, and why others are not."""

    directory: Path
    redis_url: str | None

    @property
    def kinds(self) -> list[str]:
        """Names of the backends that an app may choose and that are there."""
        return ["memory", "rocksdb"] + (["redis"] if self.redis_url else [])

    def fresh(self, kind: str) -> Backend:
        """A backend with an empty place of its own: one that apps may choose, or `unsealed`, which nodes have."""
        directory = self.directory / f"{kind}-{next(_numbers)}"
        directory.mkdir()
        if kind == "memory":
            return Backend(kind, MemoryStore, persistent=False, directory=directory)
        openers: dict[str, Callable[[str], BytesStore]] = {
            "rocksdb": lambda name: open_sealed(directory / name, name, _SMALL),
            "unsealed": lambda name: open_rocksdb(directory / name, name, _SMALL),
            "redis": lambda name: open_redis(self.redis_url or "", name, f"{directory.name}:{name}"),
        }
        return Backend(kind, openers[kind], persistent=True, directory=directory)


@contextmanager
def redis_server(directory: Path) -> Iterator[str | None]:
    """The URL of a Redis server of our own on a Unix socket, or None where Redis is not installed."""
    binary = shutil.which("redis-server")
    if binary is None:
        yield None
        return
    socket = directory / "redis.sock"
    command = [binary, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(directory)]
    with subprocess.Popen([*command, "--maxmemory-policy", "noeviction"], stdout=subprocess.DEVNULL) as server:
        try:
            url = f"unix://{socket}"
            _await_answer(url)
            yield url
        finally:
            server.terminate()


def _await_answer(url: str) -> None:
    with redis.Redis.from_url(url) as client:

        def answers() -> bool:
            with contextlib.suppress(redis.RedisError):
                return bool(client.ping())
            return False

        eventually(answers, 60, "the Redis server answers")


@contextmanager
def all_backends() -> Iterator[Backends]:
    """Every backend that this machine has, gone afterwards."""
    # A short path: a Unix socket's name has room for 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="sk-"))
    try:
        with redis_server(directory) as url:
            yield Backends(directory, url)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
