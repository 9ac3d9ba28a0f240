"""The layers that a store kind is built on, and the stores that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from storekeeper.errors import InvalidArgumentError
from storekeeper.serdes.ordered import keeps_order, writes_json
from storekeeper.serdes.serde import Serde
from storekeeper.stores.bytes_store import NO_METADATA, BytesStore, Entry
from storekeeper.stores.caching import CachingStore
from storekeeper.stores.expiry_index import ExpiryIndexStore
from storekeeper.stores.iterators import OpenIterators
from storekeeper.stores.metered import MeteredStore
from storekeeper.stores.record_context import (
    POSITION_KEY,
    InputPosition,
    RecordContext,
    decode_position,
    encode_position,
    merged_positions,
)
from storekeeper.stores.segmented import SegmentedStore

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class StoreLayers:
    """One stack of wrappers: `metered(caching(change_logging(segmented or expiry index(backend))))`.

    Attributes:
        top: what a store kind reads and writes.
        logged: the layer below the cache. Maintenance writes to it, so that its writes are logged too.
        restore_target: the layer below the changelog. A restore writes to it, so that nothing is logged twice.
        backend: the lowest layer.
        context: the input record that the store's owner is processing.
        metered: the metered layer, if there is one.
        cache: the cache, if there is one.
        segments: the time segments of window and session stores.
        expiry_index: the expiry index of versioned stores and of stores with a TTL.
    """

    top: BytesStore
    logged: BytesStore
    restore_target: BytesStore
    backend: BytesStore
    context: RecordContext
    metered: MeteredStore | None = None
    cache: CachingStore | None = None
    segments: SegmentedStore | None = None
    expiry_index: ExpiryIndexStore | None = None


class StateStore(Generic[K, V]):
    """What all store kinds have in common. Made by a `StoreBuilder`. A context manager that closes on leaving."""

    def __init__(self, layers: StoreLayers, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        self._keys = key_serde
        self._keys_are_json = writes_json(key_serde)  # asked for each range
        self._encode_key = key_serde.serialize
        self._decode_key = key_serde.deserialize
        self._encode = value_serde.serialize
        self._decode = value_serde.deserialize
        self._layers = layers
        self._context = layers.context
        self._top = layers.top
        self._seen_moves = layers.context.moves
        self._position = decode_position(layers.top.metadata(POSITION_KEY))

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
            msg = (
                f"store {self.name} can't be read in the order of its keys: they are written as JSON, where 10 comes "
                "before 9. Make them with keys=Int64Serde(), or as text or bytes; get and all work"
            )
            raise InvalidArgumentError(msg)

    @property
    def codec(self) -> tuple[Callable[[K], bytes], Callable[[V], bytes], Callable[[bytes], V]]:
        """What encodes a key, encodes a value, decodes a value."""
        return self._encode_key, self._encode, self._decode

    @property
    def layers(self) -> StoreLayers:
        """The wrappers below: for metrics, maintenance and tests."""
        return self._layers

    @property
    def name(self) -> str:
        """The store's name."""
        return self._top.name

    @property
    def persistent(self) -> bool:
        """Whether rows outlive the process."""
        return self._top.persistent

    @property
    def is_open(self) -> bool:
        """False after `close`."""
        return self._top.is_open

    @property
    def context(self) -> RecordContext:
        """Set here which input record the next writes come from."""
        return self._context

    @property
    def open_iterators(self) -> OpenIterators:
        """The iterators that are open on this store."""
        return self._top.open_iterators

    @property
    def position(self) -> InputPosition:
        """By topic and partition the offset of the last input record that wrote, cached writes included."""
        return {topic: dict(partitions) for topic, partitions in self._position.items()}

    def approximate_num_entries(self) -> int:
        """About how many rows there are; ignores cached writes and the state of compaction."""
        return self._top.approximate_num_entries()

    def flush(self) -> None:
        """Sends cached writes down and makes all that was written safe, the changelog included.

        Raises:
            DiskFullError: nothing was lost; flush again once there is space.
        """
        self._top.flush()

    def close(self) -> None:
        """Flushes and closes. Open iterators become unusable. Safe to call twice."""
        self._top.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        if self._context.moves != self._seen_moves:
            position = self._context.advanced(self._position)
            self._top.write(entries, {**metadata, POSITION_KEY: encode_position(position)})
            self._position = position
            self._seen_moves = self._context.moves
        else:
            self._top.write(entries, metadata)

    def _write_transaction(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None]) -> None:
        """Writes a transaction's entries. Other writes since its start may come from earlier or later input records."""
        position = merged_positions(self._position, decode_position(metadata.get(POSITION_KEY)))
        self._top.write(entries, {**metadata, POSITION_KEY: encode_position(position)} if position else metadata)
        self._position = position

    def _reread_position(self) -> None:
        """Begins a transaction: the current record counts as new, so that the first write stores its position."""
        self._seen_moves = 0
        self._position = decode_position(self._top.metadata(POSITION_KEY))

    def _on_flush(
        self,
        listener: Callable[[Sequence[tuple[Any, Any, Any]]], None] | None,
        decode_key: Callable[[bytes], Any],
        decode: Callable[[bytes], Any],
    ) -> None:
        """Sets the listener that gets (key, new, old), decoded, when the cache is flushed; None removes it."""
        if self._layers.cache is None:
            return
        if listener is None:
            self._layers.cache.on_flush(None)
            return

        def value(data: bytes | None) -> Any:
            return None if data is None else decode(data)

        self._layers.cache.on_flush(
            lambda changes: listener([(decode_key(key), value(new), value(old)) for key, new, old in changes])
        )
