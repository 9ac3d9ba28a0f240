"""The Redis backend, for rows that several processes read. Needs the extra `redis`.

Keys on the server, for a store `rewards` under the prefix `storekeeper`; the length in front of the name keeps a store
`a` from ever sharing keys with a store `a:b`, and the braces keep a store in one slot of a cluster:

    storekeeper:{7:rewards}:rows      hash: row key -> value
    storekeeper:{7:rewards}:index     sorted set of row keys, all with score 0: ordered by their bytes
    storekeeper:{7:rewards}:meta      hash: metadata, and `format` -> 1

Rows, index and metadata change in one MULTI. How much survives a crash of the server is its own setting
(`appendonly`, `appendfsync`): a store on Redis is as durable as the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import redis

from storekeeper.errors import (
    ConfigurationError,
    DiskFullError,
    StateError,
    StorageError,
    StoreCorruptedError,
)
from storekeeper.stores.backend import Backend
from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, Entry
from storekeeper.stores.iterators import Row, RowIterator

_CHUNK = 500
_FORMAT_FIELD = b"\x00format"
_FORMAT = b"1"
_TIMEOUT_S = 10.0


def open_redis(url: str, name: str, *, prefix: str = "storekeeper") -> RedisStore:
    """Opens the store `name` on the server at `url`, such as `redis://127.0.0.1:6379/0`.

    Raises:
        ConfigurationError: the server evicts keys when it is full, or the rows are of a later format.
        StoreCorruptedError: rows and index don't match: something else deleted keys.
        StorageError: the server can't be reached.
    """
    client = redis.Redis.from_url(url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S)
    try:
        return RedisStore(client, name, prefix)
    except BaseException:
        client.close()
        raise


class RedisStore(Backend):
    """A `BytesStore` on a Redis server. Make it with `open_redis`.

    A scan reads in chunks of 500 and is not a snapshot: a row deleted during it is skipped. One writer, many readers.
    """

    persistent = True

    def __init__(self, client: redis.Redis, name: str, prefix: str) -> None:
        super().__init__(name)
        self._client = client
        base = f"{prefix}:{{{len(name)}:{name}}}"
        self._rows_key, self._index_key, self._meta_key = f"{base}:rows", f"{base}:index", f"{base}:meta"
        self._check_server()
        self._check_rows()

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`, or None. One round trip."""
        return self._ask("hget", self._rows_key, key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at `keys`, in their order. One round trip."""
        if not self._open:
            self._refuse()
        if not keys:
            return []
        return self._ask("hmget", self._rows_key, list(keys))

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes rows, index and metadata in one MULTI, one round trip.

        Raises:
            DiskFullError: the server is at its `maxmemory`; nothing was written.
        """
        if not self._open:
            self._refuse()
        rows = dict(entries)
        puts: dict[Any, bytes] = {key: value for key, value in rows.items() if value is not None}
        deletes = [key for key, value in rows.items() if value is None]
        pipeline = self._client.pipeline(transaction=True)
        if puts:
            pipeline.hset(self._rows_key, mapping=puts)
            pipeline.zadd(self._index_key, dict.fromkeys(puts, 0))
        if deletes:
            pipeline.hdel(self._rows_key, *deletes)
            pipeline.zrem(self._index_key, *deletes)
        self._add_metadata(pipeline, metadata)
        self._run(pipeline)

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        """Rows with `start <= key < stop`, in byte order or backwards."""
        if not self._open:
            self._refuse()
        return RowIterator(self._chunks(start, stop, reverse=reverse), self._iterators)

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Deletes every row with `start <= key < stop`, 500 at a time, each chunk in one MULTI."""
        low, high = b"[" + start, b"(" + stop
        while keys := self._ask("zrangebylex", self._index_key, low, high, 0, _CHUNK):
            pipeline = self._client.pipeline(transaction=True)
            pipeline.hdel(self._rows_key, *keys)
            pipeline.zrem(self._index_key, *keys)
            self._run(pipeline)

    def metadata(self, key: bytes) -> bytes | None:
        """The metadata entry at `key`, or None."""
        return self._ask("hget", self._meta_key, key)

    def approximate_num_entries(self) -> int:
        """Exactly how many rows there are."""
        return int(self._ask("hlen", self._rows_key))

    def flush(self) -> None:
        """Checks that the server answers. Acknowledged writes are as durable as its settings make them."""
        self._ask("ping")

    def close(self) -> None:
        """Closes the connection; the rows stay. Safe to call twice."""
        if self._open:
            self._open = False
            self._iterators.shut_down()
            self._client.close()

    def _check_server(self) -> None:
        policy = self._ask("info", "memory").get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            msg = f"the Redis server evicts keys when it is full ({policy}): set maxmemory-policy to noeviction"
            raise ConfigurationError(msg)

    def _check_rows(self) -> None:
        pipeline = self._client.pipeline(transaction=True)
        pipeline.hlen(self._rows_key)
        pipeline.zcard(self._index_key)
        pipeline.hget(self._meta_key, _FORMAT_FIELD)
        rows, indexed, stored_format = self._run(pipeline)
        if stored_format not in {None, _FORMAT}:
            msg = (
                f"store {self._name} on Redis has format {stored_format!r}, later than this version; update storekeeper"
            )
            raise ConfigurationError(msg)
        if rows != indexed or (rows and stored_format is None):
            msg = (
                f"store {self._name} on Redis has {rows} rows but {indexed} in its index: something else deleted "
                "keys; destroy the store and restore it"
            )
            raise StoreCorruptedError(msg)
        if stored_format is None:
            self._ask("hset", self._meta_key, _FORMAT_FIELD, _FORMAT)

    def _add_metadata(self, pipeline: Any, metadata: Mapping[bytes, bytes | None]) -> None:
        for key, value in metadata.items():
            if value is None:
                pipeline.hdel(self._meta_key, key)
            else:
                pipeline.hset(self._meta_key, key, value)

    def _chunks(self, start: bytes | None, stop: bytes | None, *, reverse: bool) -> Iterator[Row]:
        low = b"-" if start is None else b"[" + start
        high = b"+" if stop is None else b"(" + stop
        while True:
            if reverse:
                keys = self._ask("zrevrangebylex", self._index_key, high, low, 0, _CHUNK)
            else:
                keys = self._ask("zrangebylex", self._index_key, low, high, 0, _CHUNK)
            for key, value in zip(keys, self.get_many(keys), strict=True):
                if value is not None:
                    yield key, value
            if len(keys) < _CHUNK:
                return
            if reverse:
                high = b"(" + keys[-1]
            else:
                low = b"(" + keys[-1]

    def _ask(self, command: str, *arguments: Any) -> Any:
        if not self._open:
            self._refuse()
        try:
            return getattr(self._client, command)(*arguments)
        except redis.RedisError as error:
            raise self._translated(error) from error

    def _run(self, pipeline: Any) -> list[Any]:
        try:
            return pipeline.execute()
        except redis.RedisError as error:
            raise self._translated(error) from error

    def _translated(self, error: redis.RedisError) -> StateError:
        text = str(error)
        if isinstance(error, redis.OutOfMemoryError) or "MISCONF" in text:
            msg = f"the Redis server under store {self._name} takes no writes; free memory or disk, then again: {text}"
            return DiskFullError(msg)
        return StorageError(f"the Redis server under store {self._name} failed: {text}")
