"""The global store: every partition of a topic on every node, read-only for all but the one that follows the topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from state.errors import ConfigurationError
from state.stores.bytes_store import Entry
from state.stores.key_value import KeyValueStore
from state.stores.read_only import ReadOnlyKeyValueStore, read_only_key_value

K = TypeVar("K")
V = TypeVar("V")
Transform = Callable[[bytes, bytes | None], Iterable[Entry]]
"""From a topic's record to rows of the store: none, one or several; a None value deletes."""


class GlobalStore(Generic[K, V]):
    """A key-value store that is filled from a topic, as it is or transformed.

    A restore and the following afterwards both go through `apply`, so a transformed store holds the same rows after a
    restart as before.

    Args:
        store: where the rows go. It needs no changelog, the topic is one, and may have no cache: rows go in below it.
        transform: makes rows from records; None takes records as rows.

    Raises:
        ConfigurationError: the store has a cache.
    """

    def __init__(self, store: KeyValueStore[K, V], transform: Transform | None = None) -> None:
        if store.layers.cache is not None:
            msg = f"global store {store.name} can't have a cache, which would hide what is applied: build it without"
            raise ConfigurationError(msg)
        self._store = store
        self._transform = transform
        self.skipped_total = 0

    @property
    def name(self) -> str:
        """The store's name."""
        return self._store.name

    @property
    def view(self) -> ReadOnlyKeyValueStore[K, V]:
        """What queries and topologies get."""
        return read_only_key_value(self._store)

    def apply(self, records: Iterable[tuple[bytes | None, bytes | None]], metadata: dict[bytes, bytes | None]) -> None:
        """Takes a batch of the topic's records in their order, together with the position after it, in one step.

        Records without a key are skipped and counted.
        """
        rows: list[Entry] = []
        for key, value in records:
            if key is None:
                self.skipped_total += 1
            elif self._transform is None:
                rows.append((key, value))
            else:
                rows.extend(self._transform(key, value))
        self._store.restore_batch(rows, metadata)

    def flush(self) -> None:
        """Makes what was applied, and the position with it, survive a crash of the machine."""
        self._store.flush()

    def close(self) -> None:
        """Flushes and closes the store; views of it raise `StoreClosedError` from then on. Safe to call twice."""
        self._store.close()
