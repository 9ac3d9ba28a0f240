"""Forwarding a table's changes at once or, where its store has a cache, when the cache is flushed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from state.stores.key_value import KeyValueStore
from state.stores.session import SessionStore
from state.stores.window import WindowStore
from state.tables.change import Change, Forward, TableRecord

K = TypeVar("K")
V = TypeVar("V")


class ChangeForwarder(Generic[K, V]):
    """Passes a table's changes on, in the order of their writes.

    Over a store with a cache only the last change of a key between two flushes goes on, with the old value from
    before the first one. Rows put and deleted between two flushes are never passed on. Announce each change before
    its put, as the put may evict and so flush; forward it after.
    """

    def __init__(
        self, store: object, forward: Forward[K, V], *, identity: Callable[[K], Hashable] = lambda key: key
    ) -> None:
        """Listens to the store's flushes if it has a cache.

        Args:
            store: the store that the changes are put to; one with a cache takes one listener only.
            forward: gets the changes.
            identity: what the key of a change and the key that the store reports for it have in common.
        """
        self._forward = forward
        self._identity = identity
        self._waiting: dict[Hashable, TableRecord[K, V]] = {}
        self._flushes = False
        if isinstance(store, KeyValueStore | WindowStore | SessionStore) and store.layers.cache is not None:
            self._flushes = True
            store.on_flush(self._on_flush)

    def announce(self, record: TableRecord[K, V]) -> None:
        """Announces a change that is about to be put."""
        if not self._flushes:
            return
        identity = self._identity(record.key)
        waiting = self._waiting.get(identity)
        if waiting is not None:
            change = Change(record.change.new, waiting.change.old)
            record = TableRecord(record.key, change, record.timestamp_ms)
        self._waiting[identity] = record

    def forward(self, record: TableRecord[K, V]) -> None:
        """Passes the change on after its put, unless flushes do that."""
        if not self._flushes:
            self._forward(record)

    def _on_flush(self, flushed: Sequence[tuple[Any, object, object]]) -> None:
        # Every waiting write was flushed, or changed nothing below the cache: none of them waits any longer.
        waiting, self._waiting = self._waiting, {}
        for key, _, _ in flushed:
            record = waiting.get(self._identity(key))
            if record is not None:
                self._forward(record)
