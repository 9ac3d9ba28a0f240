"""The session store: values by key, session start and session end, kept for a retention of stream time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from storekeeper.errors import ConfigurationError, InvalidWindowError
from storekeeper.serdes.keys.sessions import decode_session_row_key, session_bounds, session_end_ms, session_row_key
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS, key_bounds
from storekeeper.serdes.serde import Serde
from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, Entry
from storekeeper.stores.iterators import StoreIterator
from storekeeper.stores.layers import StoreLayers
from storekeeper.stores.stream_time import TimedStore, check_key_and_time
from storekeeper.stores.windowed import Windowed

K = TypeVar("K")
V = TypeVar("V")


class SessionStore(TimedStore[K, V]):
    """Sessions: start and end belong to them.

    A session lives while `end >= stream time - retention + 1`; stream time is the latest end that was put. Later puts
    are dropped and counted, expired sessions are never seen.
    """

    def __init__(self, layers: StoreLayers, key_serde: Serde[K], value_serde: Serde[V], *, retention_ms: int) -> None:
        if retention_ms < 1:
            raise ConfigurationError(f"sessions need a retention of at least 1 ms, not {retention_ms}")
        super().__init__(layers, key_serde, value_serde, retention_ms=retention_ms)

    def put(self, key: K, start_ms: int, end_ms: int, value: V | None) -> None:
        """Sets the value of a session; None removes it.

        Raises:
            NullKeyError: the key is None.
            InvalidTimestampError: a time is not an integer in 0 to 2^63 - 1.
            InvalidWindowError: the session ends before it starts.
        """
        check_key_and_time(key, start_ms, end_ms)
        if end_ms < start_ms:
            raise InvalidWindowError(f"a session can't end at {end_ms}, before its start at {start_ms}")
        # Encoded first: a value that its serde refuses must not move stream time.
        data = None if value is None else self._encode(value)
        row_key = session_row_key(self._encode_key(key), start_ms, end_ms)
        moved = self._time.observe(end_ms)
        if not self._time.admits(end_ms):
            return
        self._write(((row_key, data),), self._time.encoded() if moved else NO_METADATA)

    def remove(self, key: K, start_ms: int, end_ms: int) -> None:
        """Removes a session; one that isn't there is no error. Stream time stays as it is."""
        check_key_and_time(key, start_ms, end_ms)
        self._write(((session_row_key(self._encode_key(key), start_ms, end_ms), None),))

    def fetch_session(self, key: K, start_ms: int, end_ms: int) -> V | None:
        """The value of exactly that session, or None."""
        check_key_and_time(key, start_ms, end_ms)
        if end_ms < self._time.oldest_live_ms:
            return None
        data = self._top.get(session_row_key(self._encode_key(key), start_ms, end_ms))
        return None if data is None else self._decode(data)

    def find_sessions(self, key: K, earliest_end_ms: int, latest_start_ms: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """A key's sessions with `end >= earliest_end_ms` and `start <= latest_start_ms`; by end, then start."""
        return self._of_key(key, earliest_end_ms, latest_start_ms, reverse=False)

    def backward_find_sessions(
        self, key: K, earliest_end_ms: int, latest_start_ms: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `find_sessions`, backwards."""
        return self._of_key(key, earliest_end_ms, latest_start_ms, reverse=True)

    def find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_end_ms: int, latest_start_ms: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `find_sessions`, of the keys from `key_from` to `key_to`, both included; None leaves an end open."""
        return self._of_keys(key_from, key_to, (earliest_end_ms, MAX_TIMESTAMP_MS), latest_start_ms, reverse=False)

    def backward_find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_end_ms: int, latest_start_ms: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `find_sessions_range`, backwards."""
        return self._of_keys(key_from, key_to, (earliest_end_ms, MAX_TIMESTAMP_MS), latest_start_ms, reverse=True)

    def find_sessions_ended(self, from_ms: int, to_ms: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """Sessions of all keys that ended from `from_ms` to `to_ms`, both included. Reads every live session."""
        return self._of_keys(None, None, (from_ms, to_ms), MAX_TIMESTAMP_MS, reverse=False)

    def fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], V]]:
        """All sessions of a key; by end, then start."""
        return self._of_key(key, 0, MAX_TIMESTAMP_MS, reverse=False)

    def backward_fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], V]]:
        """All sessions of a key, backwards."""
        return self._of_key(key, 0, MAX_TIMESTAMP_MS, reverse=True)

    def fetch_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[Windowed[K], V]]:
        """All sessions of the keys from `key_from` to `key_to`, both included; None leaves an end open."""
        return self._of_keys(key_from, key_to, (0, MAX_TIMESTAMP_MS), MAX_TIMESTAMP_MS, reverse=False)

    def backward_fetch_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `fetch_range`, backwards."""
        return self._of_keys(key_from, key_to, (0, MAX_TIMESTAMP_MS), MAX_TIMESTAMP_MS, reverse=True)

    def _times_in(self, rows: Sequence[Entry]) -> Iterator[int]:
        return (session_end_ms(row_key) for row_key, _ in rows)

    def _of_key(
        self, key: K, earliest_end_ms: int, latest_start_ms: int, *, reverse: bool
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        check_key_and_time(key)
        earliest_ms = max(earliest_end_ms, self._time.oldest_live_ms)
        if earliest_ms > MAX_TIMESTAMP_MS:
            rows = self._top.scan(b"", b"")
        else:
            start, stop = session_bounds(self._encode_key(key), earliest_ms)
            rows = self._top.scan(start, stop, reverse=reverse)
        return StoreIterator(self._matching(rows, (earliest_ms, MAX_TIMESTAMP_MS), latest_start_ms), rows)

    def _of_keys(
        self,
        key_from: K | None,
        key_to: K | None,
        ends_ms: tuple[int, int],
        latest_start_ms: int,
        *,
        reverse: bool,
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        start, stop = key_bounds(self._bound(key_from), self._bound(key_to))
        rows = self._top.scan(start, stop, reverse=reverse)
        live = (max(ends_ms[0], self._time.oldest_live_ms), ends_ms[1])
        return StoreIterator(self._matching(rows, live, latest_start_ms), rows)

    def _matching(
        self, rows: BytesIterator, ends_ms: tuple[int, int], latest_start_ms: int
    ) -> Iterator[tuple[Windowed[K], V]]:
        earliest_end_ms, latest_end_ms = ends_ms
        for row_key, data in rows:
            key, start_ms, end_ms = decode_session_row_key(row_key)
            if start_ms <= latest_start_ms and earliest_end_ms <= end_ms <= latest_end_ms:
                yield Windowed(self._decode_key(key), start_ms, end_ms), self._decode(data)

    def _windowed(self, row_key: bytes) -> Windowed[K]:
        key, start_ms, end_ms = decode_session_row_key(row_key)
        return Windowed(self._decode_key(key), start_ms, end_ms)
