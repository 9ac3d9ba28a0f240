"""The key-value store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from storekeeper.errors import NullKeyError
from storekeeper.serdes.keys.escaping import prefix_stop
from storekeeper.serdes.serde import Serde
from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, Entry
from storekeeper.stores.iterators import StoreIterator
from storekeeper.stores.layers import StateStore, StoreLayers

K = TypeVar("K")
V = TypeVar("V")


class KeyRanges(StateStore[K, V], ABC):
    """The base of stores with one value a key. A subclass defines how rows are decoded, and which are left out.

    Rows are in the order of the serialized keys. Where that is not the order of the keys (numbers and structs as JSON),
    ranges, prefixes and reads backwards raise `InvalidArgumentError`.
    """

    def range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[K, V]]:
        """Rows from `key_from` to `key_to`, both included; None leaves an end open. Nothing if they are swapped."""
        return self._iterator(self._range(key_from, key_to, reverse=False))

    def reverse_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[K, V]]:
        """As `range`, from `key_to` down."""
        return self._iterator(self._range(key_from, key_to, reverse=True))

    def prefix_scan(
        self, prefix: Any, prefix_serializer: Callable[[Any], bytes] | None = None
    ) -> StoreIterator[tuple[K, V]]:
        """Rows whose serialized key begins with the serialized prefix.

        Args:
            prefix: what keys begin with; not None.
            prefix_serializer: makes its bytes; the key serde if None.
        """
        if prefix is None:
            refuse_null()
        if prefix_serializer is None:
            self._require_order(prefix)
        start = (prefix_serializer or self._encode_key)(prefix)
        return self._iterator(self._top.scan(start, prefix_stop(start)))

    def all(self) -> StoreIterator[tuple[K, V]]:
        """Every row, in the order of the serialized keys."""
        return self._iterator(self._top.scan(None, None))

    def reverse_all(self) -> StoreIterator[tuple[K, V]]:
        """Every row, backwards."""
        return self._iterator(self._range(None, None, reverse=True))

    def _range(self, key_from: K | None, key_to: K | None, *, reverse: bool) -> BytesIterator:
        start, stop = self._bound(key_from), self._bound(key_to)
        stop = None if stop is None else stop + b"\x00"
        if reverse:
            self._require_order()
        return self._top.scan(start, stop, reverse=reverse)

    @abstractmethod
    def _iterator(self, rows: BytesIterator) -> StoreIterator[tuple[K, V]]:
        """Decodes rows, and leaves out those that count as absent."""


def refuse_null() -> NoReturn:
    """Raises NullKeyError."""
    raise NullKeyError("a key can't be None; only a value can, which deletes")


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
        rows = self._top.get_many([self._encode_key(key) for key in keys])
        return [None if data is None else decode(data) for data in rows]

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
