"""Suppression: holding a table's changes back until they are final, or until a time limit.

    until_window_closes   one result a window, once no record can change it any more; tombstones are dropped, as
                           nobody has seen the row that they would delete
    until_time_limit      at most one change a key within the limit; tombstones go out like any other change

Both follow the table's own stream time, that is the timestamps of the changes: without newer changes nothing is
emitted, whatever the wall clock says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from state.errors import BufferFullError, ConfigurationError
from state.serdes.timestamped import ValueAndTimestamp
from state.stores.windowed import Windowed
from state.tables.change import TableRecord
from state.tables.stream_time import StreamTime
from state.tables.table import KTable
from state.tables.time_ordered_buffer import TimeOrderedBuffer
from state.tables.windows import WindowDefinition

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
    """

    due_ms: Callable[[K, int], int]
    drops_tombstones: bool = False
    buffer: BufferConfig = field(default=UNBOUNDED)


def until_time_limit(limit_ms: int, buffer: BufferConfig = UNBOUNDED) -> Suppressed[Any]:
    """Lets a key's newest change through once stream time is `limit_ms` past the first one held back; 0: at once.

    Raises:
        ConfigurationError: the limit is negative.
    """
    if limit_ms < 0:
        msg = f"changes can't be held back for {limit_ms} ms: use 0 or more"
        raise ConfigurationError(msg)
    return Suppressed(lambda _key, timestamp_ms: timestamp_ms + limit_ms, buffer=buffer)


def until_window_closes(windows: WindowDefinition, buffer: BufferConfig = UNBOUNDED) -> Suppressed[Windowed[Any]]:
    """Lets one result a window through: the last one, once the window is closed, grace included.

    Raises:
        ConfigurationError: the buffer could emit early, so that results would not be final.
    """
    if buffer.may_emit_early:
        raise ConfigurationError("final results can't be emitted early: let a full buffer shut down, or don't limit it")
    return Suppressed(lambda key, _timestamp_ms: windows.final_at_ms(key.end_ms), drops_tombstones=True, buffer=buffer)


class SuppressedTable(KTable[K, V]):
    """A table whose changes are held back.

    `get` returns the row that downstream has: a key with a change in the buffer still has its earlier row.
    """

    def __init__(
        self,
        parent: KTable[K, V],
        suppressed: Suppressed[K],
        *,
        key_bytes: Callable[[K], bytes],
        value_bytes: Callable[[V], bytes],
        stream_time: StreamTime | None = None,
    ) -> None:
        """Subscribes to `parent`.

        Args:
            parent: the table whose changes to hold back.
            suppressed: when to let them through.
            key_bytes: serialises keys: the order of changes that fall due together.
            value_bytes: serialises values, for the limit in bytes.
            stream_time: that of the changes before a restore.
        """
        super().__init__()
        self._parent = parent
        self._suppressed = suppressed
        self._stream_time = stream_time if stream_time is not None else StreamTime()
        self.buffer: TimeOrderedBuffer[K, V] = TimeOrderedBuffer(key_bytes=key_bytes, value_bytes=value_bytes)
        self._sends_old_values = parent.enable_sending_old_values()
        parent.subscribe(self._on_change)

    def get(self, key: K) -> ValueAndTimestamp[V] | None:
        """The row that downstream has, or None."""
        buffered, prior = self.buffer.prior(key)
        return prior if buffered else self._parent.get(key)

    def enable_sending_old_values(self, *, force: bool = False) -> bool:
        """Makes changes carry old values if the table above can."""
        self._sends_old_values = self._parent.enable_sending_old_values(force=force)
        return self._sends_old_values

    def _on_change(self, record: TableRecord[K, V]) -> None:
        now_ms = self._stream_time.observe(record.timestamp_ms)
        self.buffer.put(self._suppressed.due_ms(record.key, record.timestamp_ms), record)
        while (due_ms := self.buffer.earliest_due_ms) is not None and due_ms <= now_ms:
            self._emit_first()
        while self._suppressed.buffer.exceeded_by(self.buffer):
            self._require_early_emission()
            self._emit_first()

    def _emit_first(self) -> None:
        record = self.buffer.pop().record
        if record.change.new is not None or not self._suppressed.drops_tombstones:
            self._forward(record)

    def _require_early_emission(self) -> None:
        limits = self._suppressed.buffer
        if limits.when_full is BufferFullStrategy.SHUT_DOWN:
            msg = (
                f"the suppression buffer holds {len(self.buffer)} records in {self.buffer.size_bytes} bytes, "
                f"limited to {limits.max_records} records and {limits.max_bytes} bytes: raise the limit, or let it "
                "emit early"
            )
            raise BufferFullError(msg)
