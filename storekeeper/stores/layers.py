"""What a store kind is built on, and what all kinds have in common."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, Generic, TypeVar
from uuid import UUID

from storekeeper.errors import InvalidArgumentError
from storekeeper.serdes.json import JsonSerde
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import KeySerde, StructSerde
from storekeeper.stores.bytes_store import BytesStore
from storekeeper.stores.expiry_index import ExpiryIndexStore
from storekeeper.stores.iterators import OpenIterators

_IN_ORDER = (date, UUID)


def writes_json(serde: Serde[Any]) -> bool:
    """Whether the order of the bytes may not be that of the keys."""
    return isinstance(serde, StructSerde | JsonSerde)


def keeps_order(serde: Serde[Any], key: Any = None) -> bool:
    """Whether ranges up to a key have the keys that they should have.

    JSON is text: 10 comes before 9. Dates and UUIDs are always equally long there. `key` is an end of the range, None
    if it is open.
    """
    if isinstance(serde, JsonSerde) or (isinstance(serde, KeySerde) and serde.type is Any):
        return key is None or isinstance(key, str)
    return not isinstance(serde, StructSerde) or serde.type in _IN_ORDER


K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class StoreLayers:
    """What a store kind reads and writes: `transaction(segmented or expiry index(backend))`.

    Attributes:
        top: the transaction of the task's batch.
        restore_target: the layer below it. A restore writes to it, so that nothing is logged twice.
        expiry_index: the expiry index of versioned stores and of stores with a TTL.
    """

    top: BytesStore
    restore_target: BytesStore
    expiry_index: ExpiryIndexStore | None = None


class StateStore(Generic[K, V]):
    """What all store kinds have in common. A topology opens them; see `Store`."""

    def __init__(self, layers: StoreLayers, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        self._keys = key_serde
        self._keys_are_json = writes_json(key_serde)  # asked for each range
        self._encode_key = key_serde.serialize
        self._decode_key = key_serde.deserialize
        self._encode = value_serde.serialize
        self._decode = value_serde.deserialize
        self._layers = layers
        self._top = layers.top
        self._write = layers.top.write

    def _bound(self, key: K | None) -> bytes | None:
        """An end of a range of keys as bytes; None if it is open.

        Raises:
            InvalidArgumentError: bytes of such keys are not in the order of the keys.
        """
        if key is None:
            return None
        if self._keys_are_json:
            self._require_order(key)
        return self._encode_key(key)

    def _require_order(self, key: K | None = None) -> None:
        if self._keys_are_json and not keeps_order(self._keys, key):
            raise InvalidArgumentError(
                f"store {self.name} can't be read in the order of its keys: they are written as JSON, where 10 comes "
                "before 9. Make them with keys=Int64Serde(), or as text or bytes; get and all work"
            )

    @property
    def layers(self) -> StoreLayers:
        """The layers below: for the task and for tests."""
        return self._layers

    @property
    def name(self) -> str:
        """The store's name."""
        return self._top.name

    @property
    def is_open(self) -> bool:
        """False after `close`."""
        return self._top.is_open

    @property
    def open_iterators(self) -> OpenIterators:
        """The iterators that are open on this store."""
        return self._top.open_iterators

    def approximate_num_entries(self) -> int:
        """About how many rows there are. The writes of the batch are not counted."""
        return self._top.approximate_num_entries()

    def close(self) -> None:
        """Closes the store; writes that were not applied are lost. Safe to call twice."""
        self._top.close()
