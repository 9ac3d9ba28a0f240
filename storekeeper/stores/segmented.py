"""Time segments below window and session stores, so that a whole span of expired rows goes in one deletion.

Row key below, big-endian: int64 segment number · the row key from above. A row's segment is its time divided by the
segment interval. The interval is kept in the store's metadata: a store keeps the one it was created with.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from storekeeper.serdes.keys.sessions import session_end_ms
from storekeeper.serdes.keys.windows import window_start_ms
from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, BytesStore, Entry
from storekeeper.stores.derived_iterator import DerivedIterator
from storekeeper.stores.iterators import Row
from storekeeper.stores.wrapped import WrappedStore

INTERVAL_KEY = b"segment-interval"
MIN_INTERVAL_MS = 60_000
_PREFIX_BYTES = 8

TimeOf = Callable[[bytes], int]


class SegmentedStore(WrappedStore):
    """The wrapper that splits rows by time.

    Scans come in the order of the keys from above, merged over the live segments. A write to a segment that expired
    already is dropped: no reader could see it.

    Args:
        inner: the store below.
        time_of: the time in a row key, epoch milliseconds.
        interval_ms: the span of one segment, for a new store.
    """

    def __init__(self, inner: BytesStore, time_of: TimeOf, interval_ms: int) -> None:
        super().__init__(inner)
        self._time_of = time_of
        stored = inner.metadata(INTERVAL_KEY)
        self._interval_ms = interval_ms if stored is None else int.from_bytes(stored, "big")
        if stored is None:
            inner.write((), {INTERVAL_KEY: interval_ms.to_bytes(8, "big")})
        # Replaced, never changed: a reader's scan keeps the segments that it began with.
        self._segments = _present_segments(inner)
        self._oldest_live = 0

    @property
    def segments(self) -> tuple[int, ...]:
        """The numbers of the live segments, oldest first."""
        return self._segments

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`, or None."""
        return self._inner.get(self._below(key))

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at `keys`, in their order."""
        return self._inner.get_many([self._below(key) for key in keys])

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes rows of live segments and metadata in one step."""
        rows: list[Entry] = []
        for key, value in entries:
            segment = self._time_of(key) // self._interval_ms
            if segment < self._oldest_live:
                continue
            if segment not in self._segments:
                self._segments = tuple(sorted((*self._segments, segment)))
            rows.append((segment.to_bytes(_PREFIX_BYTES, "big") + key, value))
        self._inner.write(rows, metadata)

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        """Rows of all live segments, in the order of their keys from above."""
        scans = [self._scan_segment(segment, start, stop, reverse=reverse) for segment in self._segments]
        if not scans:
            return self._inner.scan(b"", b"")
        parts = [_without_prefix(scan) for scan in scans]
        rows = parts[0] if len(parts) == 1 else heapq.merge(*parts, reverse=reverse)
        return DerivedIterator(rows, scans, self.open_iterators)

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Deletes every row with `start <= key < stop`, segment by segment."""
        for segment in self._segments:
            prefix = segment.to_bytes(_PREFIX_BYTES, "big")
            self._inner.delete_range(prefix + start, prefix + stop)

    def is_expired(self, key: bytes, horizon_ms: int) -> bool:
        """Whether `expire_before` would delete a row with that key."""
        return self._time_of(key) // self._interval_ms < horizon_ms // self._interval_ms

    def expired_before(self, horizon_ms: int) -> Iterator[bytes]:
        """The keys of the rows that `expire_before` would delete."""
        for segment in self._segments:
            if segment < horizon_ms // self._interval_ms:
                with self._scan_segment(segment, None, None, reverse=False) as rows:
                    yield from (key for key, _ in _without_prefix(rows))

    def expire_before(self, horizon_ms: int) -> int:
        """Deletes the segments whose rows are all older than `horizon_ms`; returns how many went."""
        self._oldest_live = max(self._oldest_live, horizon_ms // self._interval_ms)
        expired = [segment for segment in self._segments if segment < self._oldest_live]
        for segment in expired:
            self._inner.delete_range(
                segment.to_bytes(_PREFIX_BYTES, "big"), (segment + 1).to_bytes(_PREFIX_BYTES, "big")
            )
        if expired:
            self._segments = tuple(segment for segment in self._segments if segment >= self._oldest_live)
        return len(expired)

    def _below(self, key: bytes) -> bytes:
        return (self._time_of(key) // self._interval_ms).to_bytes(_PREFIX_BYTES, "big") + key

    def _scan_segment(self, segment: int, start: bytes | None, stop: bytes | None, *, reverse: bool) -> BytesIterator:
        prefix = segment.to_bytes(_PREFIX_BYTES, "big")
        after = (segment + 1).to_bytes(_PREFIX_BYTES, "big")
        return self._inner.scan(
            prefix if start is None else prefix + start, after if stop is None else prefix + stop, reverse=reverse
        )


def _without_prefix(rows: BytesIterator) -> Iterator[Row]:
    for key, value in rows:
        yield key[_PREFIX_BYTES:], value


def _present_segments(inner: BytesStore) -> tuple[int, ...]:
    """The segments that hold rows, found by one seek each."""
    segments: list[int] = []
    start: bytes | None = None
    while True:
        with inner.scan(start, None) as rows:
            first = next(rows, None)
        if first is None:
            return tuple(segments)
        segments.append(int.from_bytes(first[0][:_PREFIX_BYTES], "big"))
        start = (segments[-1] + 1).to_bytes(_PREFIX_BYTES, "big")


def window_segments(inner: BytesStore, retention_ms: int) -> SegmentedStore:
    """The segments of a window store, by the starts of its windows."""
    return SegmentedStore(inner, window_start_ms, segment_interval_ms(retention_ms))


def session_segments(inner: BytesStore, retention_ms: int) -> SegmentedStore:
    """The segments of a session store, by the ends of its sessions."""
    return SegmentedStore(inner, session_end_ms, segment_interval_ms(retention_ms))


def segment_interval_ms(retention_ms: int) -> int:
    """Half the retention, at least a minute, as Kafka Streams chooses it: three or four segments are alive."""
    return max(retention_ms // 2, MIN_INTERVAL_MS)
