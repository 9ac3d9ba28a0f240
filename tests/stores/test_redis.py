from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from storekeeper.errors import ConfigurationError, DiskFullError, StorageError, StoreCorruptedError
from storekeeper.stores.redis import open_redis
from tests.conformance.backend import all_backends

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with all_backends() as backends:
        if backends.redis_url is None:
            pytest.skip("redis is not installed")
        yield backends.redis_url


@pytest.fixture
def client(url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(url) as connection:
        connection.flushall()
        yield connection
        connection.config_set("maxmemory-policy", "noeviction")
        connection.config_set("maxmemory", "0")


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_server_that_evicts_is_refused(url: str, client: redis.Redis, policy: str) -> None:
    client.config_set("maxmemory-policy", policy)
    with pytest.raises(ConfigurationError, match="noeviction"):
        open_redis(url, "rewards")


def test_keys_on_the_server(url: str, client: redis.Redis) -> None:
    store = open_redis(url, "rewards")
    store.write([(b"a", b"1")], {b"position": b"7"})
    assert sorted(client.keys()) == [
        b"storekeeper:{7:rewards}:index", b"storekeeper:{7:rewards}:meta", b"storekeeper:{7:rewards}:rows",
    ]  # fmt: skip
    assert client.hgetall("storekeeper:{7:rewards}:rows") == {b"a": b"1"}
    store.close()


def test_missing_rows_are_noticed_when_it_is_opened(url: str, client: redis.Redis) -> None:
    store = open_redis(url, "rewards")
    store.write([(b"a", b"1"), (b"b", b"2")])
    store.close()
    client.delete("storekeeper:{7:rewards}:rows")
    with pytest.raises(StoreCorruptedError, match="0 rows but 2 in its index"):
        open_redis(url, "rewards")


def test_a_later_format_is_refused(url: str, client: redis.Redis) -> None:
    client.hset("storekeeper:{7:rewards}:meta", b"\x00format", b"2")
    with pytest.raises(ConfigurationError, match="update storekeeper"):
        open_redis(url, "rewards")


def test_a_full_server_is_a_full_disk(url: str, client: redis.Redis) -> None:
    store = open_redis(url, "rewards")
    store.write([(b"a", b"1")])
    client.config_set("maxmemory", "1")
    with pytest.raises(DiskFullError):
        store.write([(b"a", b"2"), (b"b", b"2")], {b"position": b"7"})
    assert (store.get(b"a"), store.get(b"b"), store.metadata(b"position")) == (b"1", None, None)
    client.config_set("maxmemory", "0")
    store.write([(b"a", b"2")])
    assert store.get(b"a") == b"2"
    store.close()


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="failed"):
        open_redis(f"unix://{tmp_path}/none.sock", "rewards")
