"""Stream time of one store: the highest record time seen, which decides what has expired; and stores that keep it.

Metadata layout: int64 stream time in epoch milliseconds (-1: nothing seen), uint32 last duplicate sequence, big-endian.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from storekeeper.errors import InvalidTimestampError, NullKeyError
from storekeeper.serdes.keys.windows import MAX_SEQUENCE, MAX_TIMESTAMP_MS
from storekeeper.serdes.serde import Serde
from storekeeper.stores.bytes_store import NO_METADATA, Entry
from storekeeper.stores.layers import StateStore, StoreLayers

K = TypeVar("K")
V = TypeVar("V")

STREAM_TIME_KEY = b"stream-time"
NOTHING_SEEN_MS = -1
LONGEST_WAIT_MS = 24 * 60 * 60 * 1000
"""How far a store may be behind others that keep their rows for it."""
_LAYOUT = struct.Struct(">qI")


class StoreStreamTime:
    """Stream time with a retention.

    A row lives while `time >= stream time - retention + 1`, as in Kafka Streams' default window store.

    Attributes:
        observed_ms: stream time; never goes back.
        sequence: the last sequence given to a duplicate.
        dropped_total: records that came too late.
        latest_ms: the latest time that it may reach.
        settled_ms: stream time when the last batch ended.
        partners: the stream times of stores that rows are kept for: until these have come as far, too.
    """

    __slots__ = ("dropped_total", "latest_ms", "observed_ms", "partners", "retention_ms", "sequence", "settled_ms")

    def __init__(self, retention_ms: int, stored: bytes | None) -> None:
        self.retention_ms = retention_ms
        self.observed_ms, self.sequence = (NOTHING_SEEN_MS, 0) if stored is None else _LAYOUT.unpack(stored)
        self.dropped_total = 0
        self.latest_ms = MAX_TIMESTAMP_MS
        self.settled_ms = self.observed_ms
        self.partners: tuple[StoreStreamTime, ...] = ()

    @property
    def oldest_live_ms(self) -> int:
        """The oldest time that is still alive, at least 0."""
        now_ms = self.observed_ms
        if self.partners:
            # What a batch has moved counts when it has ended: until then changes may come that were held back.
            slowest_ms = min(self.settled_ms, *(partner.settled_ms for partner in self.partners))
            now_ms = max(slowest_ms, now_ms - LONGEST_WAIT_MS)
        return max(now_ms - self.retention_ms + 1, 0)

    def settle(self) -> None:
        """Ends a batch."""
        self.settled_ms = self.observed_ms

    def observe(self, time_ms: int) -> bool:
        """Takes a record's time into account; returns whether stream time moved.

        Raises:
            InvalidTimestampError: it would move too far, and expire all other rows.
        """
        if time_ms > self.observed_ms:
            if time_ms > self.latest_ms:
                msg = f"{time_ms} is a time after {self.latest_ms}, the latest that readers of the store can show"
                raise InvalidTimestampError(msg)
            self.observed_ms = time_ms
            return True
        return False

    def admits(self, time_ms: int) -> bool:
        """Whether a record of that time is still alive; counts it as dropped if not."""
        if time_ms > self.observed_ms - self.retention_ms:
            return True
        self.dropped_total += 1
        return False

    def next_sequence(self) -> int:
        """A sequence for the next duplicate, from 1; starts again at 0 after 2^32 - 1."""
        self.sequence = 0 if self.sequence >= MAX_SEQUENCE else self.sequence + 1
        return self.sequence

    def encoded(self) -> dict[bytes, bytes | None]:
        """The metadata to write along."""
        return {STREAM_TIME_KEY: _LAYOUT.pack(self.observed_ms, self.sequence)}


class TimedStore(StateStore[K, V], ABC):
    """The base of stores whose rows live by stream time."""

    def __init__(self, layers: StoreLayers, key_serde: Serde[K], value_serde: Serde[V], *, retention_ms: int) -> None:
        super().__init__(layers, key_serde, value_serde)
        self._time = StoreStreamTime(retention_ms, layers.top.metadata(STREAM_TIME_KEY))

    @property
    def stream_time(self) -> StoreStreamTime:
        """Stream time, retention, and the count of records that came too late."""
        return self._time

    def restore_batch(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes changelog records, in their order, below the transaction, and rebuilds stream time from the rows."""
        rows = list(entries)
        for time_ms in self._times_in(rows):
            self._time.observe(time_ms)
        self._layers.restore_target.write(rows, {**metadata, **self._time.encoded()})

    @abstractmethod
    def _times_in(self, rows: Sequence[Entry]) -> Iterable[int]:
        """The times in rows that move stream time, epoch milliseconds."""


def check_key_and_time(key: object, *times_ms: object) -> None:
    """Refuses None keys and times that are not in epoch milliseconds.

    Raises:
        NullKeyError: the key is None.
        InvalidTimestampError: a time is not an integer in 0 to 2^63 - 1.
    """
    if key is None:
        raise NullKeyError("a key can't be None; only a value can, which deletes")
    for time_ms in times_ms:
        if not isinstance(time_ms, int) or not 0 <= time_ms <= MAX_TIMESTAMP_MS:
            msg = f"{time_ms!r} is not a time in epoch milliseconds; pass 0 to {MAX_TIMESTAMP_MS}"
            raise InvalidTimestampError(msg)


def clamped(time_ms: int) -> int:
    """A bound of a search, moved into the times that exist."""
    return min(max(time_ms, 0), MAX_TIMESTAMP_MS)
