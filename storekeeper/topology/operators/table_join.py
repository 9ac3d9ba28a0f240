"""Joins of two tables by their common key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import key_serde
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.record_context import Origin, RecordContext
from storekeeper.topology.dropped_records import DroppedRecords, DropReason
from storekeeper.topology.forks import Meeting
from storekeeper.topology.node import TableNode
from storekeeper.topology.operators.joined_windows import keep_for_each_other
from storekeeper.topology.records import Change, value_of
from storekeeper.topology.store import Store
from storekeeper.topology.table import Table, TableStore
from storekeeper.topology.undo import Undo, noted
from storekeeper.topology.wiring import Wiring

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")
R = TypeVar("R")


class TableJoin(TableNode):
    """Two tables joined by their common key."""

    meets = True

    def __init__(
        self, left: TableNode, right: TableNode, kind: str, joiner: Callable[[Any, Any, Any], Any],
        *, serdes: tuple[Serde[Any], Serde[Any]], store: Store[Any] | None, alone: tuple[bool, bool],
        named: str | None,
    ) -> None:  # fmt: skip
        super().__init__(left.graph, kind, (left, right), named=named, copartitioned=True)
        self._spec = None if store is None else self.add_rows(store, serdes)
        self._keys = None if serdes[0] is None else key_serde(serdes[0])
        self._joiner = joiner
        self._alone = alone
        left.require_rows()
        right.require_rows()
        keep_for_each_other(self)

    def table(self, wiring: Wiring) -> Table[Any, Any]:
        """The joined table."""
        left, right = (wiring.table(parent) for parent in self.parents)
        store = None if self._spec is None else wiring.rows(self._spec)
        as_read = _itself if store is None else store.as_read
        meeting, joiner = wiring.meeting(self), wiring.guarded(self, self._joiner)
        if meeting is None:
            return JoinedTable(left, right, joiner, wiring.dropped, alone=self._alone, store=store, as_read=as_read)
        releasing = partial(wiring.guards.releasing, self.name, encode=self._encoded)
        return MeetingTable(
            left, right, joiner, wiring.dropped, alone=self._alone, store=store, as_read=as_read, meeting=meeting,
            context=wiring.context, releasing=releasing, key_bytes=self._key_bytes, undo=wiring.undo,
        )  # fmt: skip

    def _key_bytes(self, key: Any) -> Any:
        """What tells keys apart."""
        return key if self._keys is None else self._keys.serialize(key)

    def _encoded(self, key: Any, _: object) -> tuple[bytes | None, bytes | None]:
        """What is known of a row that can't be joined, for its dead letter."""
        return None if self._keys is None else self._keys.serialize(key), None


class JoinedTable(Table[K, R], Generic[K, V, W, R]):
    """The rows of two tables, joined by key.

    A change of one table is joined with the row that the other has forwarded, so a change that is held back counts from
    its release on. A result is stamped with the later of its two rows. A row that is gone sends a tombstone if there
    was a result. A row that expired is not gone: a change of a window that the other table doesn't keep any more gives
    no result, and is counted.
    """

    def __init__(
        self,
        left: Table[K, V],
        right: Table[K, W],
        joiner: Callable[[K, V | None, W | None], R],
        dropped: DroppedRecords,
        *,
        alone: tuple[bool, bool],
        store: TableStore[K, R] | None,
        as_read: Callable[[R | None], R | None] = lambda value: value,
    ) -> None:
        """Subscribes to both tables.

        Args:
            left: the one table.
            right: the other.
            joiner: `joiner(key, left, right)`.
            dropped: counts the changes of windows that the other table doesn't keep any more.
            alone: whether a left row without a right one gives a result, and a right row without a left one.
            store: for the results; None computes them at each look-up.
            as_read: a result as the store gave it.

        Raises:
            ConfigurationError: one of the tables can't look rows up.
        """
        super().__init__()
        self._left, self._right = left, right
        self._joiner = joiner
        self._dropped = dropped
        self._left_alone, self._right_alone = alone
        self._sends_old_values = True
        self._store = store
        self._as_read = as_read
        left.enable_sending_old_values(force=True)
        right.enable_sending_old_values(force=True)
        left.subscribe(self._on_left)
        right.subscribe(self._on_right)

    def get(self, key: K) -> ValueAndTimestamp[R] | None:
        """The joined row as of now, or None."""
        if self._store is not None:
            return self._store.get(key)
        return self._joined_row(key, self._left.get(key), self._right.get(key))

    def forwarded(self, key: K) -> ValueAndTimestamp[R] | None:
        """The row that subscribers know: without a store it follows from those that this table knows."""
        if self._store is None:
            return self._joined_row(key, self._left.forwarded(key), self._right.forwarded(key))
        return super().forwarded(key)

    def is_expired(self, key: K) -> bool:
        """Whether one of the tables does not keep the key's window any more. Its own store keeps all rows."""
        return self._store is None and (self._left.is_expired(key) or self._right.is_expired(key))

    def _joined_row(
        self, key: K, left: ValueAndTimestamp[V] | None, right: ValueAndTimestamp[W] | None
    ) -> ValueAndTimestamp[R] | None:
        value = self._join(key, value_of(left), value_of(right))
        if value is None:
            return None
        return ValueAndTimestamp(value, max(row.timestamp_ms for row in (left, right) if row is not None))

    def _join(self, key: K, left: V | None, right: W | None) -> R | None:
        if left is None and right is None:
            return None
        if (right is None and not self._left_alone) or (left is None and not self._right_alone):
            return None
        return self._joiner(key, left, right)

    def _on_left(self, key: K, change: Change[V], timestamp_ms: int) -> None:
        row = self._right.forwarded(key)
        if row is None and self._right.is_expired(key):
            self._dropped.drop(DropReason.EXPIRED_WINDOW)
            return
        right = value_of(row)
        self._changed(key, self._join(key, change.new, right), self._join(key, change.old, right), timestamp_ms, row)

    def _on_right(self, key: K, change: Change[W], timestamp_ms: int) -> None:
        row = self._left.forwarded(key)
        if row is None and self._left.is_expired(key):
            self._dropped.drop(DropReason.EXPIRED_WINDOW)
            return
        left = value_of(row)
        self._changed(key, self._join(key, left, change.new), self._join(key, left, change.old), timestamp_ms, row)

    def _changed(
        self, key: K, new: R | None, old: R | None, timestamp_ms: int, other: ValueAndTimestamp[Any] | None
    ) -> None:
        if new is None and old is None:
            return
        newest_ms = timestamp_ms if other is None else max(timestamp_ms, other.timestamp_ms)
        self._write(self._store, key, Change(new, self._as_read(old)), newest_ms)


@dataclass(slots=True)
class _Side(Generic[V]):
    """What one side of a key was and is."""

    old: V | None
    new: V | None
    timestamp_ms: int


_NO_ROW: _Side[Any] = _Side(None, None, -1)


@dataclass(frozen=True, slots=True)
class _Collected(Generic[K, V, W]):
    """What changed of one key since the join was last settled: nothing of a side that is None."""

    key: K
    origin: Origin
    left: _Side[V] | None = None
    right: _Side[W] | None = None


class MeetingTable(JoinedTable[K, V, W, R]):
    """A join whose sides have a table or a stream in common, so that one change may come on both.

    It collects the changes of a key, and gives one result of them when it is settled: from what both sides were before
    the first to what they are after the last.
    """

    def __init__(
        self, *tables: Any, meeting: Meeting, context: RecordContext, releasing: Callable[[Any], Any],
        key_bytes: Callable[[K], Any], undo: Undo | None = None, **more: Any,
    ) -> None:  # fmt: skip
        """Subscribes to both tables; see `JoinedTable`.

        Args:
            tables: the two, the joiner, and the counts of what is left out.
            meeting: when to settle.
            context: the record under way.
            releasing: guards a function that takes what is let go when the batch ends.
            key_bytes: the bytes of a key: keys are the same if they have the same.
            undo: notes how to take changes back.
            more: as for `JoinedTable`.
        """
        super().__init__(*tables, **more)
        self._meeting = meeting
        self._context = context
        self._identity = key_bytes
        self._undo = undo
        self._collected: dict[Any, _Collected[K, V, W]] = {}
        self._let_go = releasing(self._settle_key) if meeting.held else self._settle_key
        meeting.settle = self._settle

    def forwarded(self, key: K) -> ValueAndTimestamp[R] | None:
        """The row that subscribers know: what is collected is not in it."""
        waits = self._collected and self._store is None
        collected = self._collected.get(self._identity(key)) if waits else None
        if collected is None:
            return super().forwarded(key)
        left = _row(collected.left) if collected.left is not None else self._left.forwarded(key)
        right = _row(collected.right) if collected.right is not None else self._right.forwarded(key)
        return self._joined_row(key, left, right)

    def _on_left(self, key: K, change: Change[V], timestamp_ms: int) -> None:
        data, collected = self._of(key)
        left = _moved(collected.left, change, timestamp_ms)
        self._collected[data] = _Collected(key, self._context.origin, left, collected.right)
        if not self._meeting.collects:
            self._settle()

    def _on_right(self, key: K, change: Change[W], timestamp_ms: int) -> None:
        data, collected = self._of(key)
        right = _moved(collected.right, change, timestamp_ms)
        self._collected[data] = _Collected(key, self._context.origin, collected.left, right)
        if not self._meeting.collects:
            self._settle()

    def _of(self, key: K) -> tuple[Any, _Collected[K, V, W]]:
        data = self._identity(key)
        noted(self._undo, self._collected, data)
        return data, self._collected.get(data) or _Collected(key, self._context.origin)

    def _settle(self) -> None:
        if not self._collected:
            return
        context = self._context
        under_way = context.origin
        while self._collected:
            data = next(iter(self._collected))
            noted(self._undo, self._collected, data)
            collected = self._collected.pop(data)
            context.come_from(collected.origin)
            newest_ms = max(side.timestamp_ms for side in (collected.left, collected.right) if side is not None)
            self._let_go(collected.key, collected, newest_ms)
        context.come_from(under_way)

    def _settle_key(self, key: K, collected: _Collected[K, V, W], _: int) -> None:
        left = collected.left or self._unchanged(self._left, key)
        right = collected.right or self._unchanged(self._right, key)
        if left is None or right is None:
            self._dropped.drop(DropReason.EXPIRED_WINDOW)
            return
        timestamp_ms = max(left.timestamp_ms, right.timestamp_ms)
        new, old = self._join(key, left.new, right.new), self._join(key, left.old, right.old)
        if new is not None or old is not None:
            self._write(self._store, key, Change(new, self._as_read(old)), timestamp_ms)

    @staticmethod
    def _unchanged(table: Table[K, Any], key: K) -> _Side[Any] | None:
        row = table.forwarded(key)
        if row is not None:
            return _Side(row.value, row.value, row.timestamp_ms)
        return None if table.is_expired(key) else _NO_ROW


def _itself(value: Any) -> Any:
    return value


def _moved(side: _Side[V] | None, change: Change[V], timestamp_ms: int) -> _Side[V]:
    return _Side(change.old if side is None else side.old, change.new, timestamp_ms)


def _row(side: _Side[V]) -> ValueAndTimestamp[V] | None:
    return None if side.old is None else ValueAndTimestamp(side.old, side.timestamp_ms)
