"""The key-value store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from storekeeper.serdes.serde import Serde
from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, Entry
from storekeeper.stores.key_ranges import KeyRanges, refuse_null
from storekeeper.stores.layers import StoreLayers
from storekeeper.stores.store_iterator import StoreIterator

K = TypeVar("K")
V = TypeVar("V")


class KeyValueStore(KeyRanges[K, V]):
    """Keys and values by serdes, ordered by the serialized key.

    None as value deletes. Every call raises `StoreClosedError` after `close`, and `NullKeyError` for a None key.
    """

    def __init__(self, layers: StoreLayers, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        super().__init__(layers, key_serde, value_serde)
        self._raw_get = layers.top.get

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
        self._write([self._encoded(key, value) for key, value in entries])

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
        """Writes changelog records, in their order, below the transaction: nothing is logged again. Idempotent."""
        self._layers.restore_target.write(entries, metadata)

    def _iterator(self, rows: BytesIterator) -> StoreIterator[tuple[K, V]]:
        decode_key, decode = self._decode_key, self._decode
        return StoreIterator(((decode_key(key), decode(data)) for key, data in rows), rows)

    def _encoded(self, key: K, value: V | None) -> Entry:
        if key is None:
            refuse_null()
        return self._encode_key(key), None if value is None else self._encode(value)
