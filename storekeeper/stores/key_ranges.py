"""Reads of many rows in the order of their keys: what plain and expiring key-value stores have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from storekeeper.errors import NullKeyError
from storekeeper.serdes.keys.escaping import prefix_stop
from storekeeper.stores.bytes_store import BytesIterator
from storekeeper.stores.layers import StateStore
from storekeeper.stores.store_iterator import StoreIterator

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
