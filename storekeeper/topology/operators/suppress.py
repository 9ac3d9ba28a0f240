"""Suppression: holding a table's changes back until they are final, or until a time limit.

    until_window_closes   one result a window, once no record can change it any more; tombstones are dropped, as
                           nobody has seen the row that they would delete
    until_limit           at most one change a key within the limit; tombstones go out like any other change

Both follow the table's own stream time, that is the timestamps of the changes: without newer changes nothing is
emitted, whatever the wall clock says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Generic, TypeVar

from storekeeper.errors import BufferFullError, ConfigurationError
from storekeeper.serdes.round_trip import as_read_from
from storekeeper.serdes.serde import BytesSerde, Serde
from storekeeper.serdes.struct import key_serde
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.record_context import RecordContext
from storekeeper.topology.change import Change, Forward
from storekeeper.topology.function_checks import check_kind
from storekeeper.topology.node import TableNode
from storekeeper.topology.operators.time_ordered_buffer import BufferedSerde, TimeOrderedBuffer
from storekeeper.topology.store import StoreKind, milliseconds
from storekeeper.topology.stream_time import StreamTime
from storekeeper.topology.table import Table
from storekeeper.topology.topology_store import TopologyStore
from storekeeper.topology.windows import WindowedSerde, Windows
from storekeeper.topology.wiring import Wiring, encoder

K = TypeVar("K")
V = TypeVar("V")


class BufferFullStrategy(StrEnum):
    """What happens when a buffer exceeds a limit."""

    EMIT_EARLY = "emit_early"
    SHUT_DOWN = "shut_down"


@dataclass(frozen=True, slots=True)
class BufferConfig:
    """How much may wait, and what happens beyond.

    Attributes:
        max_records: the most keys that may wait, or None for no limit.
        max_bytes: the most bytes that they may take (`TimeOrderedBuffer.size_bytes`), or None for no limit.
        when_full: emit the changes due first, or raise `BufferFullError`.

    Raises:
        ConfigurationError: a limit is negative.
    """

    max_records: int | None = None
    max_bytes: int | None = None
    when_full: BufferFullStrategy = BufferFullStrategy.EMIT_EARLY

    def __post_init__(self) -> None:
        for name, limit in (("max_records", self.max_records), ("max_bytes", self.max_bytes)):
            if limit is not None and limit < 0:
                msg = f"{name} can't be {limit}: use 0 or more, or None for no limit"
                raise ConfigurationError(msg)

    @property
    def may_emit_early(self) -> bool:
        """Whether a limit could make changes go out before they are due."""
        limited = self.max_records is not None or self.max_bytes is not None
        return limited and self.when_full is BufferFullStrategy.EMIT_EARLY

    def exceeded_by(self, buffer: TimeOrderedBuffer[Any, Any]) -> bool:
        """Whether the buffer is over a limit."""
        over_records = self.max_records is not None and len(buffer) > self.max_records
        return over_records or (self.max_bytes is not None and buffer.size_bytes > self.max_bytes)


UNBOUNDED = BufferConfig()


@dataclass(frozen=True, slots=True)
class Suppressed(Generic[K]):
    """When changes are let through.

    Attributes:
        due_ms: `due_ms(key, timestamp_ms)` is the stream time from which a change may go out.
        drops_tombstones: whether downstream can do without tombstones, as it sees each key once.
        buffer: how much may wait.
        windows: those that a table must have, or None for any table.
    """

    due_ms: Callable[[K, int], int]
    drops_tombstones: bool = False
    buffer: BufferConfig = field(default=UNBOUNDED)
    windows: Windows | None = None


def until_limit(limit: timedelta, buffer: BufferConfig = UNBOUNDED) -> Suppressed[Any]:
    """Lets a key's newest change through once stream time is `limit` past the first one held back; 0: at once.

    Raises:
        ConfigurationError: the limit is negative.
    """
    check_kind("until_limit", buffer, BufferConfig, "a BufferConfig(...)")
    limit_ms = milliseconds(limit, "the limit of a suppression")
    if limit_ms < 0:
        msg = f"changes can't be held back for {limit_ms} ms: use 0 or more"
        raise ConfigurationError(msg)
    return Suppressed(lambda _key, timestamp_ms: timestamp_ms + limit_ms, buffer=buffer)


def until_window_closes(windows: Windows, buffer: BufferConfig = UNBOUNDED) -> Suppressed[Any]:
    """Lets one result a window through: the last one, once the window is closed, grace included.

    Raises:
        ConfigurationError: the buffer could emit early, so that results would not be final.
    """
    check_kind("until_window_closes", windows, Windows, "the table's windows, such as tumbling(...)")
    check_kind("until_window_closes", buffer, BufferConfig, "a BufferConfig(...)")
    if buffer.may_emit_early:
        raise ConfigurationError("final results can't be emitted early: let a full buffer shut down, or don't limit it")
    return Suppressed(
        lambda key, _timestamp_ms: windows.final_at_ms(key.end_ms),
        drops_tombstones=True,
        buffer=buffer,
        windows=windows,
    )


class Suppress(TableNode):
    """A table whose changes are held back. What waits is in a store of its own."""

    def __init__(
        self, parent: TableNode, suppressed: Suppressed[Any], serdes: tuple[Serde[Any], Serde[Any]],
        *, windowed: bool, named: str | None,
    ) -> None:  # fmt: skip
        super().__init__(parent.graph, "suppress", (parent,), named=named)
        self._suppressed = suppressed
        self._keys, self._values = key_serde(serdes[0]), serdes[1]
        self._windowed = windowed
        parent.require_rows()
        keys, waiting = BytesSerde(), BufferedSerde(self._keys, self._values, windowed=windowed)
        self._spec = self.add_store(
            None, "buffer", lambda name, options: TopologyStore(name, StoreKind.KEY_VALUE, keys, waiting,
                                                            options, timestamped=True, internal=True))  # fmt: skip

    def table(self, wiring: Wiring) -> Table[Any, Any]:
        """The table over its buffer, which has what waited when the task ended."""
        keys: Serde[Any] = WindowedSerde(self._keys) if self._windowed else self._keys
        buffer: TimeOrderedBuffer[Any, Any] = TimeOrderedBuffer(
            key_bytes=wiring.guarded(self, keys.serialize), value_bytes=wiring.guarded(self, self._values.serialize),
            undo=wiring.undo,
        )  # fmt: skip
        rows = wiring.rows(self._spec)
        for _, row in rows.all():
            waiting = row.value
            buffer.put(waiting.due_ms, waiting.key, waiting.change, waiting.timestamp_ms, waiting.headers)
        buffer.touched.clear()
        context = wiring.context

        def save() -> None:
            under_way = context.origin
            for key, waiting in buffer.take_touched().items():
                context.come_from_headers(() if waiting is None else waiting.headers)
                rows.put(key, None if waiting is None else ValueAndTimestamp(waiting, waiting.timestamp_ms))
            context.come_from(under_way)

        wiring.saves.append(save)
        parent, stream_time = wiring.table(self.parents[0]), wiring.stream_time(self.name)
        as_read = wiring.guarded(self, as_read_from(f"store {self._spec.name}", self._values))
        table: SuppressedTable[Any, Any] = SuppressedTable(
            parent, self._suppressed, buffer, stream_time, context, as_read=as_read
        )
        table.release_by(partial(wiring.guards.releasing, self.name, encode=encoder(self._keys, self._values)))
        return table


class SuppressedTable(Table[K, V]):
    """A table whose changes are held back.

    `get` returns the row that downstream has: a key with a change in the buffer still has its earlier row.
    """

    def __init__(
        self, parent: Table[K, V], suppressed: Suppressed[K], buffer: TimeOrderedBuffer[K, V], stream_time: StreamTime,
        context: RecordContext, *, as_read: Callable[[Any, V | None], V | None] = lambda _, value: value,
    ) -> None:  # fmt: skip
        """Subscribes to `parent`.

        Args:
            parent: the table whose changes to hold back.
            suppressed: when to let them through.
            buffer: what waits.
            stream_time: that of the changes so far.
            context: the record under way. A change goes out with the headers of the record that made it.
            as_read: `as_read(key, value)` is the value as the buffer will give it.
        """
        super().__init__()
        self._parent = parent
        self._suppressed = suppressed
        self._buffer = buffer
        self._stream_time = stream_time
        self._context = context
        self._as_read = as_read
        self._sends_old_values = parent.enable_sending_old_values()
        self._release: Forward[K, V] = self._forward
        parent.subscribe(self._on_change)

    def release_by(self, releasing: Callable[[Forward[K, V]], Forward[K, V]]) -> None:
        """Guards the function that takes the changes which are let through."""
        self._release = releasing(self._forward)

    def get(self, key: K) -> ValueAndTimestamp[V] | None:
        """The row that downstream has, or None."""
        buffered, prior = self._buffer.prior(key)
        return prior if buffered else self._parent.forwarded(key)

    def is_expired(self, key: K) -> bool:
        """Whether the table above does not keep the key's window any more, and no change of it waits."""
        return self._parent.is_expired(key) and not self._buffer.prior(key)[0]

    def enable_sending_old_values(self, *, force: bool = False) -> bool:
        """Makes changes carry old values if the table above can."""
        self._sends_old_values = self._parent.enable_sending_old_values(force=force)
        return self._sends_old_values

    def _on_change(self, key: K, change: Change[V], timestamp_ms: int) -> None:
        buffer = self._buffer
        change = Change(self._as_read(key, change.new), self._as_read(key, change.old))
        now_ms = self._stream_time.observe(timestamp_ms)
        headers = self._context.headers
        buffer.put(self._suppressed.due_ms(key, timestamp_ms), key, change, timestamp_ms, headers)
        while (due_ms := buffer.earliest_due_ms) is not None and due_ms <= now_ms:
            self._emit_first()
        while self._suppressed.buffer.exceeded_by(buffer):
            self._require_early_emission()
            self._emit_first()

    def _emit_first(self) -> None:
        waiting = self._buffer.pop()
        if waiting.change.new is not None or not self._suppressed.drops_tombstones:
            under_way = self._context.origin
            self._context.come_from_headers(waiting.headers)
            self._release(waiting.key, waiting.change, waiting.timestamp_ms)
            self._context.come_from(under_way)

    def _require_early_emission(self) -> None:
        limits = self._suppressed.buffer
        if limits.when_full is BufferFullStrategy.SHUT_DOWN:
            msg = (
                f"the suppression buffer holds {len(self._buffer)} records in {self._buffer.size_bytes} bytes, "
                f"limited to {limits.max_records} records and {limits.max_bytes} bytes: raise the limit, or let it "
                "emit early"
            )
            raise BufferFullError(msg)
