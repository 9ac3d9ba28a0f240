"""The buffer behind suppression: at most one change a key, the one due first on top."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sortedcontainers import SortedDict

from storekeeper.serdes.serde import Serde
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.record_context import Header
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.change import Change
from storekeeper.topology.operators.grouped_table import ChangeSerde
from storekeeper.topology.operators.headers import decode_headers, encode_headers
from storekeeper.topology.undo import Undo
from storekeeper.topology.windows import FOREVER_MS

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
