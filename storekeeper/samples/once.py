"""Leaves out repeated events: each counts once for as long as it is remembered. Older events are late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, TypeVar

import msgspec
import xxhash

from storekeeper.stores.window import WindowStore
from storekeeper.topology import DropReason, KStream, ProcessorContext, Store, StoreKind, StreamsBuilder

V = TypeVar("V")
_DIGEST_BYTES = 8


class Seen(msgspec.Struct, frozen=True, rename="pascal"):
    """The digests of a key's events at one time."""

    digests: bytes = b""

    def knows(self, digest: bytes) -> bool:
        """Whether an event is among them."""
        return digest in {self.digests[at : at + _DIGEST_BYTES] for at in range(0, len(self.digests), _DIGEST_BYTES)}


def once(
    streams: StreamsBuilder, events: KStream[str, V], identity: Callable[[V], str], *, store: str, memory_ms: int
) -> KStream[str, V]:
    """The events without repeats, which have the same key, time and identity.

    An event whose time is `memory_ms` or more behind stream time could be a repeat that is not remembered any more: it
    is late, left out and counted.

    Args:
        streams: the builder that gets the store.
        events: the events, which may repeat.
        identity: returns what distinguishes events of one key and time.
        store: the name of the store of seen events, with a window of one millisecond for each key and time.
        memory_ms: how long an event is remembered, in stream time.
    """
    retention = timedelta(milliseconds=memory_ms)
    streams.add_store(Store(store, Seen, kind=StoreKind.WINDOW, retention=retention))
    return events.process_values(
        lambda: Once(identity, store, memory_ms), stores=[store], values=events.serdes.required_values(store)
    )


@dataclass(slots=True)
class Once(Generic[V]):
    """Passes on the first occurrence of each event."""

    identity: Callable[[V], str]
    store_name: str
    memory_ms: int
    _context: ProcessorContext[str, V] = field(init=False)
    _store: WindowStore[str, Seen] = field(init=False)

    def init(self, context: ProcessorContext[str, V]) -> None:
        """Gets the store."""
        self._context = context
        self._store = context.store(self.store_name)

    def process(self, key: str, event: V, timestamp_ms: int) -> None:
        """Passes the event on, unless it is late or a repeat."""
        if timestamp_ms + self.memory_ms <= self._context.stream_time_ms:
            self._context.drop(DropReason.EXPIRED_WINDOW)
            return
        seen = self._store.fetch_one(key, timestamp_ms) or Seen()
        digest = xxhash.xxh3_64_digest(self.identity(event).encode())
        if not seen.knows(digest):
            self._store.put(key, Seen(seen.digests + digest), timestamp_ms)
            self._context.forward(key, event)
