"""The backends that cases run on."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import redis

from harness.waiting import eventually
from storekeeper.stores.rocksdb_sealed import SealedSupplier
from storekeeper.stores.suppliers import MemorySupplier, RedisSupplier, RocksDBSupplier, StoreSupplier

_numbers = count()


@dataclass(frozen=True, slots=True)
class Backend:
    """A kind of backend with a place of its own for one case.

    Attributes:
        kind: memory, rocksdb, sealed or redis.
        supplier: opens stores there.
        persistent: whether rows outlive a close; where they don't, a reopened store is restored from its changelog.
        directory: scratch space.
    """

    kind: str
    supplier: StoreSupplier
    persistent: bool
    directory: Path


@dataclass(frozen=True, slots=True)
class Backends:
    """The backends that are there, and why others are not."""

    directory: Path
    redis_url: str | None

    @property
    def kinds(self) -> list[str]:
        """Names of the backends that are there."""
        return ["memory", "rocksdb"] + (["redis"] if self.redis_url else [])

    def fresh(self, kind: str) -> Backend:
        """A backend with an empty place of its own."""
        directory = self.directory / f"{kind}-{next(_numbers)}"
        directory.mkdir()
        if kind == "memory":
            return Backend(kind, MemorySupplier(), persistent=False, directory=directory)
        if kind == "rocksdb":
            supplier = RocksDBSupplier(directory / "stores", profile="memory_constrained")
            return Backend(kind, supplier, persistent=True, directory=directory)
        if kind == "sealed":
            return Backend(kind, SealedSupplier(directory / "stores"), persistent=True, directory=directory)
        assert self.redis_url is not None
        return Backend(kind, RedisSupplier(self.redis_url, directory.name), persistent=True, directory=directory)


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
