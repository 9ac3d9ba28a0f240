"""The buffer behind suppression: at most one change a key, the one due first on top."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from sortedcontainers import SortedDict

from state.serdes.timestamped import ValueAndTimestamp
from state.stores.windowed import Windowed
from state.tables.change import Change, TableRecord

K = TypeVar("K")
V = TypeVar("V")

RECORD_OVERHEAD_BYTES = 28
"""The bytes of a buffered change beside its key and values: due time, timestamp, offset and partition, as in Kafka."""


@dataclass(frozen=True, slots=True)
class Buffered(Generic[K, V]):
    """One change that waits.

    Attributes:
        due_ms: the stream time from which it may be emitted. Later changes of the key don't move it.
        record: the key's newest change, whose `old` is the value from before the buffer: what downstream saw last.
    """

    due_ms: int
    record: TableRecord[K, V]


class TimeOrderedBuffer(Generic[K, V]):
    """Changes in the order in which they fall due; those due together in the order of their keys' bytes.

    A later change of a buffered key takes the earlier one's place and due time, so that a busy key is emitted as
    punctually as a quiet one. Not thread-safe.
    """

    def __init__(self, *, key_bytes: Callable[[K], bytes], value_bytes: Callable[[V], bytes]) -> None:
        """Serialises keys for their order, and keys and values for their size; both must be deterministic."""
        self._key_bytes = key_bytes
        self._value_bytes = value_bytes
        self._due: dict[bytes, int] = {}
        self._rows: SortedDict = SortedDict()
        self._size_bytes = 0
        self.touched: set[bytes] = set()

    def take_touched(self) -> dict[bytes, Buffered[K, V] | None]:
        """The keys changed since the last call, each with its waiting change or None. To be saved."""
        touched, self.touched = self.touched, set()
        due = self._due
        return {key: Buffered(due[key], self._rows[due[key], key]) if key in due else None for key in touched}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Buffered[K, V]]:
        """The buffered changes, in the order of due times: put them into a fresh buffer to restore this one."""
        return (Buffered(due_ms, record) for (due_ms, _), record in self._rows.items())

    @property
    def size_bytes(self) -> int:
        """The size of the buffered changes: keys, values and `RECORD_OVERHEAD_BYTES` each."""
        return self._size_bytes

    @property
    def earliest_due_ms(self) -> int | None:
        """When the first change falls due, or None if nothing is buffered."""
        return self._rows.peekitem(0)[0][0] if self._rows else None

    def put(self, due_ms: int, record: TableRecord[K, V]) -> None:
        """Buffers a change, in place of the key's earlier one if there is one."""
        key = self._key_bytes(record.key)
        self.touched.add(key)
        known_due_ms = self._due.get(key)
        if known_due_ms is None:
            self._due[key] = known_due_ms = due_ms
        else:
            earlier: TableRecord[K, V] = self._rows[known_due_ms, key]
            self._size_bytes -= self._weight(key, earlier)
            record = TableRecord(record.key, Change(record.change.new, earlier.change.old), record.timestamp_ms)
        self._rows[known_due_ms, key] = record
        self._size_bytes += self._weight(key, record)

    def pop(self) -> Buffered[K, V]:
        """Takes out the change that falls due first.

        Raises:
            KeyError: nothing is buffered.
        """
        (due_ms, key), record = self._rows.popitem(0)
        del self._due[key]
        self.touched.add(key)
        self._size_bytes -= self._weight(key, record)
        return Buffered(due_ms, record)

    def prior(self, key: K) -> tuple[bool, ValueAndTimestamp[V] | None]:
        """Whether the key is buffered, and if so the row from before that: the row that downstream still sees.

        The prior row's timestamp isn't known and stands at that of the buffered change.
        """
        key_bytes = self._key_bytes(key)
        due_ms = self._due.get(key_bytes)
        if due_ms is None:
            return False, None
        record: TableRecord[K, V] = self._rows[due_ms, key_bytes]
        old = record.change.old
        return True, None if old is None else ValueAndTimestamp(old, record.timestamp_ms)

    def _weight(self, key: bytes, record: TableRecord[K, V]) -> int:
        values = (value for value in (record.change.new, record.change.old) if value is not None)
        return RECORD_OVERHEAD_BYTES + len(key) + sum(len(self._value_bytes(value)) for value in values)


def windowed_key_bytes(key_bytes: Callable[[K], bytes]) -> Callable[[Windowed[K]], bytes]:
    """Bytes of a windowed key: the key's, then start and end, 8 bytes big-endian each."""

    def to_bytes(windowed: Windowed[K]) -> bytes:
        return key_bytes(windowed.key) + windowed.start_ms.to_bytes(8, "big") + windowed.end_ms.to_bytes(8, "big")

    return to_bytes
