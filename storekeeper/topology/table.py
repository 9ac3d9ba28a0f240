"""A task's tables: streams of upserts and tombstones, read as the newest row of each key.

A table pushes each change to its subscribers, at once and on the caller's thread. A table follows its log's order: a
record with an earlier timestamp than the row still replaces it. One thread feeds a partition's tables.

A table may send old values with its changes. Aggregations of a table need them, to subtract the old value before they
add the new one; filters use them to send no tombstones for rows that never passed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.record_context import Origin, RecordContext
from storekeeper.topology.records import Change, Forward, value_of
from storekeeper.topology.undo import LastWrites, Undo

K = TypeVar("K")
V = TypeVar("V")
K_contra = TypeVar("K_contra", contravariant=True)


class TableStore(Protocol[K_contra, V]):
    """The rows of one table by key."""

    def get(self, key: K_contra, /) -> ValueAndTimestamp[V] | None:
        """The row at `key`, or None."""
        ...

    def value(self, key: K_contra, /) -> V | None:
        """The value of the row at `key`, or None."""
        ...

    def put(self, key: K_contra, row: ValueAndTimestamp[V] | None, /) -> ValueAndTimestamp[V] | None:
        """Writes the row; None deletes it. Gives the row as it will be read."""
        ...


class Table(ABC, Generic[K, V]):
    """A table of rows `key -> (value, timestamp)` and the stream of their changes."""

    def __init__(self) -> None:
        self._downstream: list[Forward[K, V]] = []
        self._subscribers = self._downstream
        self._sends_old_values = False
        self._held: dict[Any, tuple[K, Change[V], int, Origin]] = {}
        self._key_bytes: Callable[[K], Any] = _itself

    @abstractmethod
    def get(self, key: K) -> ValueAndTimestamp[V] | None:
        """The key's row as of now, or None.

        Raises:
            ConfigurationError: neither this table nor one above it has a store to read.
        """

    def looking_up(self) -> Callable[[K], V | None]:
        """What gives the value of a key's row as of now, in one call where the table has a store of its own."""
        return lambda key: value_of(self.get(key))

    def get_as_of(self, key: K, timestamp_ms: int) -> ValueAndTimestamp[V] | None:
        """The row that was valid at a time, where the table is versioned; else the row as of now."""
        return self.get(key)

    def forwarded(self, key: K) -> ValueAndTimestamp[V] | None:
        """The row that subscribers know, or None: a row whose change is held back still has its earlier value.

        The earlier row's timestamp isn't known and stands at that of the change.
        """
        held = self._held.get(self._key_bytes(key)) if self._held else None
        if held is None:
            return self.get(key)
        _, change, timestamp_ms, _ = held
        return None if change.old is None else ValueAndTimestamp(change.old, timestamp_ms)

    def is_expired(self, key: K) -> bool:
        """Whether the key's window is not kept any more, so that nobody can say whether it had a row."""
        return False

    def enable_sending_old_values(self, *, force: bool = False) -> bool:
        """Makes changes carry old values, if this table or one above it has a store to read them from. `force`: old
        values are indispensable. Returns whether changes carry old values from now on: always, where the table itself
        has a store.

        Raises:
            ConfigurationError: `force`, and no table from here upwards has a store.
        """
        self._sends_old_values = True
        return True

    def subscribe(self, forward: Forward[K, V]) -> None:
        """Sends every later change to `forward`, after those that subscribed before."""
        self._subscribers.append(forward)

    def bracket(self, around: Callable[[Forward[K, V]], Forward[K, V]]) -> None:
        """Puts something around what all subscribers do with a change. Call it when all have subscribed."""
        subscribers = self._subscribers.copy()

        def forward_all(key: K, change: Change[V], timestamp_ms: int) -> None:
            for forward in subscribers:
                forward(key, change, timestamp_ms)

        self._subscribers[:] = [around(forward_all)]

    def hold_back(
        self,
        context: RecordContext,
        releasing: Callable[[Forward[K, V]], Forward[K, V]] = lambda forward: forward,
        key_bytes: Callable[[K], Any] | None = None,
        undo: Undo | None = None,
    ) -> Callable[[], None]:
        """Holds changes back from those that subscribe later.

        Args:
            context: the record under way. A change is let go as one of the record that made it.
            releasing: guards a function that takes changes which are let go.
            key_bytes: the bytes of a key: keys are the same if they have the same. None: if they are equal.
            undo: notes how to take changes back.

        Returns:
            A function that lets the last change of each key go, with the old value from before the first. Where old
            values are known, a row that was put and deleted meanwhile gives no change.
        """
        subscribers: list[Forward[K, V]] = []
        self._subscribers = subscribers
        held = self._held
        identity = self._key_bytes = key_bytes or _itself

        def forward_all(key: K, change: Change[V], timestamp_ms: int) -> None:
            for forward in subscribers:
                forward(key, change, timestamp_ms)

        let_go = releasing(forward_all)
        order = None if undo is None else LastWrites(undo)

        def hold(key: K, change: Change[V], timestamp_ms: int) -> None:
            data = identity(key)
            if undo is not None and order is not None:
                undo.item(held, data)
                order.wrote(data)
            earlier = held.pop(data, None)
            if earlier is not None:
                change = Change(change.new, earlier[1].old)
            held[data] = (key, change, timestamp_ms, context.origin)

        def release() -> None:
            rows = list(held.items()) if order is None else order.in_order(held.items())
            for data, (key, change, timestamp_ms, origin) in rows:
                del held[data]
                if change.new is None and change.old is None and self._sends_old_values:
                    continue
                context.come_from(origin)
                let_go(key, change, timestamp_ms)

        self._downstream.append(hold)
        return release

    def _write(self, store: TableStore[K, V] | None, key: K, change: Change[V], timestamp_ms: int) -> None:
        """Puts the new row to the store, if there is one, and forwards the change as the store will give it."""
        if store is not None:
            if change.new is None:
                store.put(key, None)
            else:
                row = store.put(key, ValueAndTimestamp(change.new, timestamp_ms))
                if row is not None and row.value is not change.new:
                    change = Change(row.value, change.old)
        self._forward(key, change, timestamp_ms)

    def _forward(self, key: K, change: Change[V], timestamp_ms: int) -> None:
        for forward in self._downstream:
            forward(key, change, timestamp_ms)


def _itself(key: Any) -> Any:
    return key
