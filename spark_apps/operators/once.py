"""Leaves out repeated events: each counts once for as long as it is remembered. Older events are late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, TypeVar

import xxhash

from state.seen import Seen
from storekeeper import DropReason, KStream, ProcessorContext, Store, StreamsBuilder, WindowStore

V = TypeVar("V")


def once(
    streams: StreamsBuilder, events: KStream[str, V], identity: Callable[[V], str], store: Store[Seen]
) -> KStream[str, V]:
    """The events without repeats, which have the same key, time and identity.

    An event whose time is the store's retention or more behind stream time could be a repeat that is not remembered any
    more: it is late, left out and counted.

    Args:
        streams: the builder that gets the store.
        events: the events, which may repeat.
        identity: returns what distinguishes events of one key and time.
        store: the window store of seen events.
    """
    streams.add_store(store)
    name, memory_ms = str(store.name), (store.retention or timedelta()) // timedelta(milliseconds=1)
    return events.process_values(
        lambda: Once(identity, name, memory_ms), stores=[name], values=events.serdes.required_values(name)
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
