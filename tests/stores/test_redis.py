from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from storekeeper.errors import ConfigurationError, DiskFullError, StorageError, StoreCorruptedError
from storekeeper.stores.redis import check_server, delete_rows, delete_rows_of, open_redis

pytestmark = pytest.mark.redis
PLACE = "pos:gen-1:rewards:0"


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as connection:
        connection.flushall()
        yield connection
        connection.config_set("maxmemory-policy", "noeviction")
        connection.config_set("maxmemory", "0")


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_server_that_evicts_is_refused(redis_url: str, client: redis.Redis, policy: str) -> None:
    client.config_set("maxmemory-policy", policy)
    with pytest.raises(ConfigurationError, match="noeviction"):
        open_redis(redis_url, "rewards", PLACE)
    with pytest.raises(ConfigurationError, match="noeviction"):
        check_server(redis_url)


def test_keys_on_the_server(redis_url: str, client: redis.Redis) -> None:
    store = open_redis(redis_url, "rewards", PLACE)
    store.write([(b"a", b"1")], {b"position": b"7"})
    own = b"storekeeper:{pos:gen-1:rewards:0}:"
    assert sorted(client.keys()) == [own + part for part in (b"index", b"meta", b"owner", b"rows")]
    assert client.hgetall("storekeeper:{pos:gen-1:rewards:0}:rows") == {b"a": b"1"}
    store.close()


def test_missing_rows_are_noticed_when_it_is_opened(redis_url: str, client: redis.Redis) -> None:
    store = open_redis(redis_url, "rewards", PLACE)
    store.write([(b"a", b"1"), (b"b", b"2")])
    store.close()
    client.delete("storekeeper:{pos:gen-1:rewards:0}:rows")
    with pytest.raises(StoreCorruptedError, match="0 rows but 2 in its index"):
        open_redis(redis_url, "rewards", PLACE)


def test_a_later_format_is_refused(redis_url: str, client: redis.Redis) -> None:
    client.hset("storekeeper:{pos:gen-1:rewards:0}:meta", b"\x00format", b"2")
    with pytest.raises(ConfigurationError, match="update storekeeper"):
        open_redis(redis_url, "rewards", PLACE)


def test_a_full_server_is_a_full_disk(redis_url: str, client: redis.Redis) -> None:
    store = open_redis(redis_url, "rewards", PLACE)
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
        open_redis(f"unix://{tmp_path}/none.sock", "rewards", PLACE)


def test_a_store_takes_no_writes_of_a_process_that_had_it_before(redis_url: str, client: redis.Redis) -> None:
    abandoned = open_redis(redis_url, "rewards", PLACE)
    abandoned.write([(b"a", b"1")], {b"position": b"1"})
    store = open_redis(redis_url, "rewards", PLACE)
    store.write([(b"a", b"2")], {b"position": b"2"})
    with pytest.raises(StorageError, match="another process has opened store rewards"):
        abandoned.write([(b"a", b"1"), (b"b", b"1")], {b"position": b"1"})
    with pytest.raises(StorageError, match="another process has opened store rewards"):
        abandoned.delete_range(b"a", b"b")
    assert (store.get(b"a"), store.get(b"b"), store.metadata(b"position")) == (b"2", None, b"2")
    abandoned.close()
    store.close()


def test_a_store_that_is_opened_while_an_earlier_process_writes_has_all_of_the_write_or_none(
    redis_url: str, client: redis.Redis
) -> None:
    store = open_redis(redis_url, "rewards", PLACE)
    opened = []

    def rows() -> Iterator[tuple[bytes, bytes]]:
        yield b"a", b"1"

    watch = redis.client.Pipeline.multi

    def interrupted(pipeline: redis.client.Pipeline) -> None:
        opened.append(open_redis(redis_url, "rewards", PLACE))
        watch(pipeline)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(redis.client.Pipeline, "multi", interrupted)
        with pytest.raises(StorageError, match="another process"):
            store.write(rows(), {b"position": b"1"})
    assert (opened[0].get(b"a"), opened[0].metadata(b"position")) == (None, None)
    opened[0].close()
    store.close()


def test_a_large_batch_is_one_transaction(redis_url: str, client: redis.Redis) -> None:
    store = open_redis(redis_url, "rewards", PLACE)
    rows = [(b"%06d" % number, b"v") for number in range(25_000)]
    store.write(rows)
    store.write([(key, None) for key, _ in rows[:24_999]])
    assert list(store.scan(None, None)) == rows[24_999:]
    store.close()


def test_rows_are_deleted_with_their_metadata_and_no_others(redis_url: str, client: redis.Redis) -> None:
    for place in (PLACE, "pos:gen-1:rewards:1", "pos:gen-10:rewards:0", "other:gen-1:rewards:0"):
        store = open_redis(redis_url, "rewards", place)
        store.write([(b"a", b"1")])
        store.close()
    delete_rows(redis_url, PLACE)
    assert {key.split(b"}")[0] for key in client.scan_iter()} == {
        b"storekeeper:{pos:gen-1:rewards:1",
        b"storekeeper:{pos:gen-10:rewards:0",
        b"storekeeper:{other:gen-1:rewards:0",
    }  # fmt: skip
    delete_rows_of(redis_url, "pos:gen-1:")
    assert {key.split(b"}")[0] for key in client.scan_iter()} == {
        b"storekeeper:{pos:gen-10:rewards:0", b"storekeeper:{other:gen-1:rewards:0",
    }  # fmt: skip


def test_an_url_that_is_none_is_not_shown_as_it_may_hold_a_password() -> None:
    with pytest.raises(ConfigurationError, match="has no URL of Redis") as raised:
        check_server("http://:hidden@127.0.0.1")
    assert "hidden" not in str(raised.value)
