"""Suppression: holding a table's changes back until they are final, or until a time limit.

    until_window_closes   one result a window, once no record can change it any more; tombstones are dropped, as
                           nobody has seen the row that they would delete
    until_limit           at most one change a key within the limit; tombstones go out like any other change

Both follow the table's own stream time, that is the timestamps of the changes: without newer changes nothing is
emitted, whatever the wall clock says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Generic, TypeVar

from sortedcontainers import SortedDict

from storekeeper.errors import BufferFullError, ConfigurationError
from storekeeper.serdes.round_trip import as_read_from
from storekeeper.serdes.serde import BytesSerde, Serde
from storekeeper.serdes.struct import key_serde
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.record_context import Header, RecordContext
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.function_checks import check_kind
from storekeeper.topology.node import TableNode
from storekeeper.topology.operators.grouped_table import ChangeSerde
from storekeeper.topology.operators.headers import decode_headers, encode_headers
from storekeeper.topology.records import Change, Forward
from storekeeper.topology.store import StoreKind, milliseconds
from storekeeper.topology.table import Table
from storekeeper.topology.times import StreamTime
from storekeeper.topology.topology_store import TopologyStore
from storekeeper.topology.undo import Undo
from storekeeper.topology.windows import FOREVER_MS, WindowedSerde, Windows
from storekeeper.topology.wiring import Wiring, encoder

K = TypeVar("K")
V = TypeVar("V")

RECORD_OVERHEAD_BYTES = 28
"""The bytes of a buffered change beside its key and values: due time, timestamp, offset and partition, as in Kafka."""


@dataclass(frozen=True, slots=True)
class Buffered(Generic[K, V]):
    """One change that waits.

    Attributes:
        due_ms: the stream time from which it may be emitted. Later changes of the key don't move it.
        key: the row's key.
        change: the key's newest change, whose `old` is the value from before the buffer: what downstream saw last.
        timestamp_ms: that of the newest change.
        headers: those of the record that made the newest change.
    """

    due_ms: int
    key: K
    change: Change[V]
    timestamp_ms: int
    headers: Sequence[Header] = ()


class TimeOrderedBuffer(Generic[K, V]):
    """Changes in the order in which they fall due; those due together in the order of their keys' bytes.

    A later change of a buffered key takes the earlier one's place and due time, so that a busy key is emitted as
    punctually as a quiet one. Not thread-safe.
    """

    def __init__(
        self, *, key_bytes: Callable[[K], bytes], value_bytes: Callable[[V], bytes], undo: Undo | None = None
    ) -> None:
        """Serialises keys for their order, and keys and values for their size; both must be deterministic.

        `undo` notes how to take changes back.
        """
        self._undo = undo
        if undo is not None:
            undo.keep(self, "_size_bytes")
        self._key_bytes = key_bytes
        self._value_bytes = value_bytes
        self._due: dict[bytes, int] = {}
        self._rows: SortedDict = SortedDict()
        self._size_bytes = 0
        self.touched: dict[bytes, None] = {}

    def take_touched(self) -> dict[bytes, Buffered[K, V] | None]:
        """The keys changed since the last call, each with its waiting change or None. To be saved."""
        touched, self.touched = self.touched, {}
        return {key: self._rows[self._due[key], key] if key in self._due else None for key in touched}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def size_bytes(self) -> int:
        """The size of the buffered changes: keys, values, headers and `RECORD_OVERHEAD_BYTES` each."""
        return self._size_bytes

    @property
    def earliest_due_ms(self) -> int | None:
        """When the first change falls due, or None if nothing is buffered."""
        return self._rows.peekitem(0)[0][0] if self._rows else None

    def put(self, due_ms: int, key: K, change: Change[V], timestamp_ms: int, headers: Sequence[Header] = ()) -> None:
        """Buffers a change, in place of the key's earlier one if there is one."""
        data = self._key_bytes(key)
        self.touched[data] = None
        known_due_ms = self._due.get(data)
        if self._undo is not None:
            self._undo.add(self._put_back, data, None if known_due_ms is None else self._rows[known_due_ms, data])
        if known_due_ms is None:
            self._due[data] = known_due_ms = due_ms
        else:
            earlier: Buffered[K, V] = self._rows[known_due_ms, data]
            self._size_bytes -= self._weight(data, earlier)
            change = Change(change.new, earlier.change.old)
        waiting = self._rows[known_due_ms, data] = Buffered(known_due_ms, key, change, timestamp_ms, headers)
        self._size_bytes += self._weight(data, waiting)

    def pop(self) -> Buffered[K, V]:
        """Takes out the change that falls due first.

        Raises:
            KeyError: nothing is buffered.
        """
        waiting: Buffered[K, V]
        (_, data), waiting = self._rows.popitem(0)
        del self._due[data]
        self.touched[data] = None
        if self._undo is not None:
            self._undo.add(self._put_back, data, waiting)
        self._size_bytes -= self._weight(data, waiting)
        return waiting

    def prior(self, key: K) -> tuple[bool, ValueAndTimestamp[V] | None]:
        """Whether the key is buffered, and if so the row from before that: the row that downstream still sees.

        The prior row's timestamp isn't known and stands at that of the buffered change.
        """
        data = self._key_bytes(key)
        due_ms = self._due.get(data)
        if due_ms is None:
            return False, None
        waiting: Buffered[K, V] = self._rows[due_ms, data]
        old = waiting.change.old
        return True, None if old is None else ValueAndTimestamp(old, waiting.timestamp_ms)

    def _put_back(self, key: bytes, waiting: Buffered[K, V] | None) -> None:
        self.touched.pop(key, None)
        known_due_ms = self._due.pop(key, None)
        if known_due_ms is not None:
            del self._rows[known_due_ms, key]
        if waiting is not None:
            self._due[key] = waiting.due_ms
            self._rows[waiting.due_ms, key] = waiting

    def _weight(self, key: bytes, waiting: Buffered[K, V]) -> int:
        values = (value for value in (waiting.change.new, waiting.change.old) if value is not None)
        size = RECORD_OVERHEAD_BYTES + len(key) + sum(len(self._value_bytes(value)) for value in values)
        if waiting.headers:
            size += sum(len(name) + len(value or b"") for name, value in waiting.headers)
        return size


class BufferedSerde:
    """A change that waits: due time, timestamp, start and end of the window (0 without one), 8 bytes big-endian each;
    length of the key, 4 bytes; the key; the headers; the change.
    """

    def __init__(self, keys: Serde[Any], values: Serde[Any], *, windowed: bool) -> None:
        self._keys = keys
        self._changes = ChangeSerde(values)
        self._windowed = windowed

    def serialize(self, value: Buffered[Any, Any]) -> bytes:
        """The change's bytes."""
        key, start_ms, end_ms = value.key if self._windowed else (value.key, 0, 0)
        data = self._keys.serialize(key)
        times = (min(value.due_ms, FOREVER_MS), value.timestamp_ms, start_ms, end_ms)
        head = b"".join(time.to_bytes(8, "big", signed=True) for time in times)
        place = head + len(data).to_bytes(4, "big") + data
        return place + encode_headers(value.headers) + self._changes.serialize(value.change)

    def deserialize(self, data: bytes) -> Buffered[Any, Any]:
        """The change."""
        due_ms, timestamp_ms, start_ms, end_ms = (
            int.from_bytes(data[at : at + 8], "big", signed=True) for at in range(0, 32, 8)
        )
        end = 36 + int.from_bytes(data[32:36], "big")
        key = self._keys.deserialize(data[36:end])
        headers, at = decode_headers(data, end)
        change: Change[Any] = self._changes.deserialize(data[at:])
        row_key = Windowed(key, start_ms, end_ms) if self._windowed else key
        return Buffered(due_ms, row_key, change, timestamp_ms, headers)


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
                raise ConfigurationError(f"{name} can't be {limit}: use 0 or more, or None for no limit")

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
        raise ConfigurationError(f"changes can't be held back for {limit_ms} ms: use 0 or more")
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
            raise BufferFullError(
                f"the suppression buffer holds {len(self._buffer)} records in {self._buffer.size_bytes} bytes, "
                f"limited to {limits.max_records} records and {limits.max_bytes} bytes: raise the limit, or let it "
                "emit early"
            )
