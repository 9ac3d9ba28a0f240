"""The Redis backend, for rows that other programs read from the server. Needs the extra `redis`.

Keys on the server, for the place `pos:gen-1:rewards:0`; the braces keep a store in one slot of a cluster:

    storekeeper:{pos:gen-1:rewards:0}:rows      hash: row key -> value
    storekeeper:{pos:gen-1:rewards:0}:index     sorted set of row keys, all with score 0: ordered by their bytes
    storekeeper:{pos:gen-1:rewards:0}:meta      hash: metadata, and `format` -> 1
    storekeeper:{pos:gen-1:rewards:0}:owner     the process that opened the store last, and alone may write

Rows, index and metadata change in one MULTI, which fails if another process has opened the store since. How much
survives a crash of the server is its own setting (`appendonly`, `appendfsync`). As all is of one moment, a store that
lost its last writes is an older one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

import redis

from storekeeper.errors import (
    ConfigurationError,
    DiskFullError,
    StateError,
    StorageError,
    StoreCorruptedError,
)
from storekeeper.stores.bytes_store import NO_METADATA, Backend, BytesIterator, Entry
from storekeeper.stores.iterators import Row, RowIterator

T = TypeVar("T")

_CHUNK = 500
_FORMAT_FIELD = b"\x00format"
_FORMAT = b"1"
_TIMEOUT_S = 10.0
_PARTS = ("rows", "index", "meta", "owner")
_MOST_IN_COMMAND = 10_000


def open_redis(url: str, name: str, place: str) -> RedisStore:
    """Opens the store `name` at a place on the server at `url`, such as `redis://127.0.0.1:6379/0`.

    No process that has opened it before can write to it any more.

    Raises:
        ConfigurationError: the server evicts keys when it is full, or the rows are of a later format.
        StoreCorruptedError: rows and index don't match: something else deleted keys.
        StorageError: the server can't be reached.
    """
    client = _client(url)
    try:
        return RedisStore(client, name, place)
    except BaseException:
        client.close()
        raise


def check_server(url: str) -> None:
    """Checks that a server can hold stores.

    Raises:
        ConfigurationError: it evicts keys when it is full, or the URL is not one of Redis.
        StorageError: it can't be reached.
    """
    with closing(_client(url)) as client:
        _check_policy(client)


def delete_rows(url: str, place: str) -> None:
    """Deletes the rows and the metadata of the store at a place.

    Raises:
        StorageError: the server can't be reached.
    """
    with closing(_client(url)) as client:
        _asked(client, "unlink", *_keys_at(place))


def delete_rows_of(url: str, places: str) -> None:
    """Deletes all stores at places that begin so. Raises as `delete_rows`."""
    with closing(_client(url)) as client:
        cursor = 0
        while True:
            cursor, keys = _asked(client, "scan", cursor, f"storekeeper:{{{places}*", _CHUNK)
            if keys:
                _asked(client, "unlink", *keys)
            if not cursor:
                return


class RedisStore(Backend):
    """A `BytesStore` on a Redis server. Make it with `open_redis`.

    A scan reads in chunks of 500 and is not a snapshot: a row deleted during it is skipped. One writer: the process
    that opened the store last.
    """

    persistent = True

    def __init__(self, client: redis.Redis, name: str, place: str) -> None:
        super().__init__(name)
        self._client = client
        self._rows_key, self._index_key, self._meta_key, self._owner_key = _keys_at(place)
        _check_policy(client)
        self._owner = secrets.token_hex(8).encode()
        # What an earlier owner has written by now is there; what it writes later is refused.
        self._ask("set", self._owner_key, self._owner)
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
            StorageError: another process has opened the store since; nothing was written.
        """
        rows = dict(entries)
        puts = [(key, value) for key, value in rows.items() if value is not None]
        deletes = [key for key, value in rows.items() if value is None]

        def add(pipeline: Any) -> None:
            for part in _parts(puts):
                pipeline.hset(self._rows_key, mapping=dict(part))
                pipeline.zadd(self._index_key, dict.fromkeys((key for key, _ in part), 0))
            self._add_deletes(pipeline, deletes)
            self._add_metadata(pipeline, metadata)

        self._change(add)

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        """Rows with `start <= key < stop`, in byte order or backwards."""
        if not self._open:
            self._refuse()
        return RowIterator(self._chunks(start, stop, reverse=reverse), self._iterators)

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Deletes every row with `start <= key < stop`, 500 at a time, each chunk in one MULTI."""
        low, high = b"[" + start, b"(" + stop
        while keys := self._ask("zrangebylex", self._index_key, low, high, 0, _CHUNK):
            self._change(partial(self._add_deletes, keys=keys))

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

    def _check_rows(self) -> None:
        rows, indexed = self._ask("hlen", self._rows_key), self._ask("zcard", self._index_key)
        stored_format = self._ask("hget", self._meta_key, _FORMAT_FIELD)
        if stored_format not in {None, _FORMAT}:
            raise ConfigurationError(
                f"store {self._name} on Redis has format {stored_format!r}, later than this version; update storekeeper"
            )
        if rows != indexed or (rows and stored_format is None):
            raise StoreCorruptedError(
                f"store {self._name} on Redis has {rows} rows but {indexed} in its index: something else deleted "
                "keys; it has to be restored"
            )
        if stored_format is None:
            self._ask("hset", self._meta_key, _FORMAT_FIELD, _FORMAT)

    def _change(self, add: Callable[[Any], None]) -> None:
        """Runs commands in one MULTI, unless another process has opened the store since."""
        if not self._open:
            self._refuse()
        try:
            with self._client.pipeline(transaction=True) as pipeline:
                pipeline.watch(self._owner_key)  # type: ignore[no-untyped-call]
                if pipeline.get(self._owner_key) != self._owner:
                    raise redis.WatchError
                pipeline.multi()
                add(pipeline)
                pipeline.execute()
        except redis.WatchError as error:
            msg = f"another process has opened store {self._name} on Redis: this attempt can't write to it any more"
            raise StorageError(msg) from error
        except redis.RedisError as error:
            raise _translated(error) from error

    def _add_deletes(self, pipeline: Any, keys: Sequence[bytes]) -> None:
        for part in _parts(keys):
            pipeline.hdel(self._rows_key, *part)
            pipeline.zrem(self._index_key, *part)

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
        return _asked(self._client, command, *arguments)


def _keys_at(place: str) -> list[str]:
    return [f"storekeeper:{{{place}}}:{part}" for part in _PARTS]


def _client(url: str) -> redis.Redis:
    try:
        return redis.Redis.from_url(url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S)
    except ValueError as error:
        # The URL may hold a password: the message doesn't name it.
        msg = "secrets/redis.url of the run directory has no URL of Redis, such as redis://127.0.0.1:6379/0"
        raise ConfigurationError(msg) from error


def _check_policy(client: redis.Redis) -> None:
    policy = _asked(client, "info", "memory").get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        msg = f"the Redis server evicts keys when it is full ({policy}): set maxmemory-policy to noeviction"
        raise ConfigurationError(msg)


def _asked(client: redis.Redis, command: str, *arguments: Any) -> Any:
    try:
        return getattr(client, command)(*arguments)
    except redis.RedisError as error:
        raise _translated(error) from error


def _translated(error: redis.RedisError) -> StateError:
    text = str(error)
    if isinstance(error, redis.OutOfMemoryError) or "MISCONF" in text:
        return DiskFullError(f"the Redis server takes no writes; free memory or disk, then again: {text}")
    return StorageError(f"the Redis server failed: {text}")


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _MOST_IN_COMMAND] for start in range(0, len(items), _MOST_IN_COMMAND))
