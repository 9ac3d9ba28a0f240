"""The versioned key-value store: every value a key had within the history retention, by the time it was valid from.

A row below is one version: its key is in `state.keys.versions`; its value is one byte, 00 for a deletion or 01, then
the serialized value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from state.errors import ConfigurationError
from state.keys.versions import version_bounds, version_row_key, version_timestamp_ms
from state.keys.windows import MAX_TIMESTAMP_MS
from state.serdes.serde import Serde
from state.stores.bytes_store import NO_METADATA, Entry
from state.stores.layers import StoreLayers
from state.stores.stream_time import TimedStore, check_key_and_time, clamped

K = TypeVar("K")
V = TypeVar("V")

VALID_TO_UNDEFINED_MS = -1
"""`valid_to_ms` of a version that no later one has replaced."""
NOT_PUT_MS = -(1 << 63)
"""What `put` returns for a record that came too late to be kept."""

_DELETED = b"\x00"
_PRESENT = b"\x01"


class VersionedRecord(NamedTuple, Generic[V]):
    """One version of a value.

    Attributes:
        value: the value.
        timestamp_ms: when it became valid.
        valid_to_ms: when the next version, or a deletion, replaced it; -1 if none has.
    """

    value: V
    timestamp_ms: int
    valid_to_ms: int


class VersionedKeyValueStore(TimedStore[K, V]):
    """Values with the time that they are valid from. Made by `StoreBuilder.versioned_key_value`.

    Records may come out of order: a version takes its place by its timestamp. One that is older than stream time minus
    the history retention is dropped and counted. The latest version of a key never expires. One writer, many readers.
    """

    def __init__(
        self, layers: StoreLayers, key_serde: Serde[K], value_serde: Serde[V], *, history_retention_ms: int
    ) -> None:
        check_history_retention(history_retention_ms)
        super().__init__(layers, key_serde, value_serde, retention_ms=history_retention_ms)
        self._retention_ms = history_retention_ms

    def put(self, key: K, value: V | None, timestamp_ms: int) -> int:
        """Adds a version; None means that the key was deleted at that time.

        Returns:
            Until when the version is valid: the timestamp of the next one, -1 if it is the latest, `NOT_PUT_MS` if it
            came too late.

        Raises:
            NullKeyError: the key is None.
            InvalidTimestampError: `timestamp_ms` is not an integer in 0 to 2^63 - 1.
        """
        check_key_and_time(key, timestamp_ms)
        if timestamp_ms < self._horizon_ms:
            self._time.dropped_total += 1
            return NOT_PUT_MS
        # Encoded first: a value that its serde refuses must not move stream time.
        data = self._encode_key(key)
        changes: list[Entry] = [
            (version_row_key(data, timestamp_ms), _DELETED if value is None else _PRESENT + self._encode(value))
        ]
        moved = self._time.observe(timestamp_ms)
        changes += [(row_key, None) for row_key in self._outlived(data, timestamp_ms)]
        self._write(changes, self._time.encoded() if moved else NO_METADATA)
        return self._replaced_at_ms(data, timestamp_ms)

    def delete(self, key: K, timestamp_ms: int) -> VersionedRecord[V] | None:
        """Records that the key was deleted at `timestamp_ms`; returns the version that was valid then."""
        check_key_and_time(key, timestamp_ms)
        current = self.get(key, timestamp_ms)
        self.put(key, None, timestamp_ms)
        return current

    def get(self, key: K, as_of: int | None = None) -> VersionedRecord[V] | None:
        """The version valid at `as_of`, epoch milliseconds; the latest if None.

        None if the key had no value then, or if `as_of` is older than the history that is kept, unless the latest
        version was valid already.
        """
        check_key_and_time(key)
        data = self._encode_key(key)
        found = self._version_at(data, MAX_TIMESTAMP_MS if as_of is None else as_of)
        if found is None or found[1] == _DELETED:
            return None
        timestamp_ms, stored = found
        replaced_at_ms = self._replaced_at_ms(data, timestamp_ms)
        if as_of is not None and as_of < self._horizon_ms and replaced_at_ms != VALID_TO_UNDEFINED_MS:
            return None
        return VersionedRecord(self._decode(stored[1:]), timestamp_ms, replaced_at_ms)

    def history(self, key: K, from_ms: int, to_ms: int) -> list[VersionedRecord[V]]:
        """The versions that `get` finds at some time from `from_ms` to `to_ms`, both included, oldest first.

        Nothing if the times are swapped.
        """
        check_key_and_time(key)
        if to_ms < max(from_ms, 0):
            return []
        data = self._encode_key(key)
        horizon_ms = self._horizon_ms
        oldest_ms = max(from_ms, horizon_ms)
        records: list[VersionedRecord[V]] = []
        valid_to_ms = self._replaced_at_ms(data, to_ms)
        with self._top.scan(*version_bounds(data, clamped(to_ms))) as rows:
            for row_key, stored in rows:
                timestamp_ms = version_timestamp_ms(row_key)
                # Before the horizon only the latest version is known, as in `get`.
                if stored != _DELETED and (valid_to_ms == VALID_TO_UNDEFINED_MS or to_ms >= horizon_ms):
                    records.append(VersionedRecord(self._decode(stored[1:]), timestamp_ms, valid_to_ms))
                valid_to_ms = timestamp_ms
                if timestamp_ms <= oldest_ms:
                    break
        return records[::-1]

    def _times_in(self, rows: Sequence[Entry]) -> Iterator[int]:
        return (version_timestamp_ms(row_key) for row_key, _ in rows)

    @property
    def _horizon_ms(self) -> int:
        return self._time.observed_ms - self._retention_ms

    def _version_at(self, key: bytes, as_of_ms: int) -> tuple[int, bytes] | None:
        if as_of_ms < 0:
            return None
        with self._top.scan(*version_bounds(key, clamped(as_of_ms))) as rows:
            for row_key, stored in rows:
                return version_timestamp_ms(row_key), stored
        return None

    def _replaced_at_ms(self, key: bytes, timestamp_ms: int) -> int:
        if timestamp_ms >= MAX_TIMESTAMP_MS:
            return VALID_TO_UNDEFINED_MS
        newest_first, behind = version_bounds(key, MAX_TIMESTAMP_MS)[0], version_row_key(key, timestamp_ms)
        with self._top.scan(newest_first, behind, reverse=True) as rows:
            for row_key, _ in rows:
                return version_timestamp_ms(row_key)
        return VALID_TO_UNDEFINED_MS

    def _outlived(self, key: bytes, newest_ms: int) -> list[bytes]:
        """Row keys of versions that were replaced before the horizon: no query can reach them any more."""
        horizon_ms = self._horizon_ms
        if horizon_ms < 0:
            return []
        with self._top.scan(*version_bounds(key, min(horizon_ms, newest_ms))) as rows:
            reachable = next(rows, None)
            if reachable is None:
                return []
            return [row_key for row_key, _ in rows]


def check_history_retention(history_retention_ms: int) -> None:
    """Refuses a history retention that can't work; 0 keeps the latest versions only.

    Raises:
        ConfigurationError: it is negative.
    """
    if history_retention_ms < 0:
        msg = f"the history retention can't be {history_retention_ms} ms"
        raise ConfigurationError(msg)
