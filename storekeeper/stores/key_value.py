"""The key-value store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeVar

from storekeeper.serdes.serde import BytesSerde, Serde
from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, Entry
from storekeeper.stores.key_ranges import KeyRanges, refuse_null
from storekeeper.stores.layers import StoreLayers
from storekeeper.stores.store_iterator import StoreIterator
from storekeeper.stores.transaction import TransactionStore

K = TypeVar("K")
V = TypeVar("V")


class KeyValueStore(KeyRanges[K, V]):
    """Keys and values by serdes, ordered by the serialized key. Made by `StoreBuilder.key_value`.

    None as value deletes. One writer, many readers. Every call raises `StoreClosedError` after `close`, and
    `NullKeyError` for a None key.
    """

    def __init__(self, layers: StoreLayers, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        super().__init__(layers, key_serde, value_serde)
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._raw_get = layers.top.get
        self._plain = _is_bytes(key_serde) and _is_bytes(value_serde)
        if self._plain:
            # Bytes need no serde: the two calls would cost as much as the look-up.
            self.get: Callable[[K], V | None] = self._get_plain  # type: ignore[method-assign]

    def get(self, key: K) -> V | None:
        """The value, or None if there is none."""
        if key is None:
            refuse_null()
        data = self._raw_get(self._encode_key(key))
        return None if data is None else self._decode(data)

    def get_many(self, keys: Sequence[K]) -> list[V | None]:
        """The values at `keys`, in their order, None where there is none. One call to the backend."""
        if None in keys:
            refuse_null()
        if self._plain:
            return self._top.get_many(keys)  # type: ignore[arg-type, return-value]
        decode = self._decode
        found = self._top.get_many([self._encode_key(key) for key in keys])
        return [None if data is None else decode(data) for data in found]

    def put(self, key: K, value: V | None) -> None:
        """Sets the value; None deletes."""
        if key is None:
            refuse_null()
        self._write(((self._encode_key(key), None if value is None else self._encode(value)),))

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Sets many values in one atomic step; the last of several for one key wins. None deletes."""
        if self._plain:
            rows: list[Entry] = entries if type(entries) is list else list(entries)  # type: ignore[arg-type]
            if any(key is None for key, _ in rows):
                refuse_null()
        else:
            rows = [self._encoded(key, value) for key, value in entries]
        self._write(rows)

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Sets the value if there is none; returns the one that was there. None never deletes here."""
        current = self.get(key)
        if current is None and value is not None:
            self.put(key, value)
        return current

    def delete(self, key: K) -> V | None:
        """Deletes the row; returns the value that was there, or None."""
        current = self.get(key)
        self._write(((self._encode_key(key), None),))
        return current

    def restore_batch(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes changelog records, in their order, below the changelog: nothing is logged again. Idempotent."""
        self._layers.restore_target.write(entries, metadata)

    def transaction(self) -> KeyValueTransaction[K, V]:
        """Several writes in one atomic step: `with store.transaction() as rows: rows.put(...)`.

        Commits on leaving, unless an exception leaves it. The store's position follows with the commit.
        """
        pending = TransactionStore(self._top, self._write_transaction)
        return KeyValueTransaction(replace(self._layers, top=pending), pending, self._key_serde, self._value_serde)

    def on_flush(self, listener: Callable[[Sequence[tuple[K, V | None, V | None]]], None] | None) -> None:
        """Sets the listener that gets (key, new, old) when the cache is flushed, in write order. Needs a cache.

        The old value is that below the cache before the flush, always None unless the cache sends old values.
        """
        self._on_flush(listener, self._decode_key, self._decode)

    def _get_plain(self, key: K) -> V | None:
        if key is None:
            refuse_null()
        return self._raw_get(key)  # type: ignore[arg-type, return-value]

    def _iterator(self, rows: BytesIterator) -> StoreIterator[tuple[K, V]]:
        if self._plain:
            return StoreIterator(rows, rows)  # type: ignore[arg-type]
        decode_key, decode = self._decode_key, self._decode
        return StoreIterator(((decode_key(key), decode(data)) for key, data in rows), rows)

    def _encoded(self, key: K, value: V | None) -> Entry:
        if key is None:
            refuse_null()
        return self._encode_key(key), None if value is None else self._encode(value)


class KeyValueTransaction(KeyValueStore[K, V]):
    """A key-value store whose writes wait for `commit`; it reads its own writes. Not thread-safe."""

    def __init__(
        self, layers: StoreLayers, pending: TransactionStore, key_serde: Serde[K], value_serde: Serde[V]
    ) -> None:
        super().__init__(layers, key_serde, value_serde)
        self._pending = pending
        self._reread_position()

    def commit(self) -> None:
        """Writes everything in one atomic step; of several writes to one key the last."""
        self._pending.commit()
        self._reread_position()

    def abort(self) -> None:
        """Forgets everything since the last commit."""
        self._pending.abort()
        self._reread_position()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.abort()


def _is_bytes(serde: object) -> bool:
    return type(serde) is BytesSerde
