"""The versioned key-value store: every value a key had within the history retention, by the time it was valid from.

A row below is one version: its key is in `storekeeper.serdes.keys.versions`; its value is one byte, 00 for a deletion
or 01, then the serialized value. An expiry index has each version by the time that it is valid from. When the history
no longer reaches back to that time, the versions that it replaced can go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from storekeeper.errors import ConfigurationError
from storekeeper.serdes.keys.versions import (
    decode_version_row_key,
    version_bounds,
    version_row_key,
    version_timestamp_ms,
)
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.serdes.serde import Serde
from storekeeper.stores.bytes_store import NO_METADATA, BytesStore, Entry
from storekeeper.stores.expiry_index import ExpiryIndexStore
from storekeeper.stores.layers import StoreLayers
from storekeeper.stores.stream_time import TimedStore, check_key_and_time, clamped

K = TypeVar("K")
V = TypeVar("V")

VALID_TO_UNDEFINED_MS = -1
"""`valid_to_ms` of a version that no later one has replaced."""
NOT_PUT_MS = -(1 << 63)
"""What `put` returns for a record that came too late to be kept."""

DELETED_VERSION = b"\x00"
"""What is stored in the place of a value for a deletion."""
_PRESENT = b"\x01"
_LEAST_DUE = 1000


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
    """Values with the time that they are valid from.

    Records may come out of order: a version takes its place by its timestamp. One that is older than stream time minus
    the history retention is dropped and counted. The latest version of a key never expires, unless it is a deletion.

    Versions that no query can reach any more stay on disk until a batch ends.
    """

    def __init__(
        self, layers: StoreLayers, key_serde: Serde[K], value_serde: Serde[V], *, history_retention_ms: int
    ) -> None:
        if history_retention_ms < 0:
            raise ConfigurationError(f"the history retention can't be {history_retention_ms} ms")
        super().__init__(layers, key_serde, value_serde, retention_ms=history_retention_ms)
        if layers.expiry_index is None:
            raise ConfigurationError("a versioned store needs an expiry index below")
        self._index: ExpiryIndexStore = layers.expiry_index
        self._retention_ms = history_retention_ms
        self._puts = 0

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
        row = (
            version_row_key(data, timestamp_ms),
            DELETED_VERSION if value is None else _PRESENT + self._encode(value),
        )
        moved = self._time.observe(timestamp_ms)
        self._puts += 1
        self._write((row,), self._time.encoded() if moved else NO_METADATA)
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
        version = self._version_at(data, MAX_TIMESTAMP_MS if as_of is None else as_of)
        if version is None or version[1] == DELETED_VERSION:
            return None
        timestamp_ms, stored = version
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
                if stored != DELETED_VERSION and (valid_to_ms == VALID_TO_UNDEFINED_MS or to_ms >= horizon_ms):
                    records.append(VersionedRecord(self._decode(stored[1:]), timestamp_ms, valid_to_ms))
                valid_to_ms = timestamp_ms
                if timestamp_ms <= oldest_ms:
                    break
        return records[::-1]

    def all(self) -> Iterator[tuple[K, VersionedRecord[V]]]:
        """The latest version of each key that has a value, in the order of the serialized keys."""
        newest: dict[bytes, tuple[int, bytes]] = {}
        with self._top.scan(None, None) as rows:
            for row_key, stored in rows:
                key, timestamp_ms = decode_version_row_key(row_key)
                newest.setdefault(key, (timestamp_ms, stored))
        for key, (timestamp_ms, stored) in newest.items():
            if stored != DELETED_VERSION:
                latest = VersionedRecord(self._decode(stored[1:]), timestamp_ms, VALID_TO_UNDEFINED_MS)
                yield self._decode_key(key), latest

    def delete_unreachable(self, written: int = 0) -> list[bytes]:
        """Deletes versions that no query can reach any more.

        It looks at the keys of 1000 versions that left the history, and of two more for each put since the last call.
        So the number that waits does not grow. `written` is how many versions were written, if not all by `put`.
        Returns what to `settle` once the deletions are on disk.
        """
        limit, self._puts = _LEAST_DUE + 2 * max(self._puts, written), 0
        due = self._index.expired_keys(self._horizon_ms, limit)
        keys = dict.fromkeys(decode_version_row_key(row_key)[0] for row_key in due)
        if unreachable := [row_key for key in keys for row_key in self._unreachable(key)]:
            self._write([(row_key, None) for row_key in unreachable])
        return due

    def settle(self, due: Sequence[bytes]) -> None:
        """Ends a `delete_unreachable`: those of the rows that it looked at and that stay are not looked at again."""
        self._index.take_out(due)

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

    def _unreachable(self, key: bytes) -> list[bytes]:
        """Row keys of the versions that were replaced, or are deletions, at the horizon; the oldest first.

        A reader of the changelog may see a part of the deletions: no version may then answer for a later one's time.
        """
        with self._top.scan(*version_bounds(key, self._horizon_ms)) as rows:
            versions = list(rows)
        # The newest is valid at the horizon. If it is a deletion, nothing is, as without it.
        stays = 1 if versions and versions[0][1] != DELETED_VERSION else 0
        return [row_key for row_key, _ in reversed(versions[stays:])]


def value_of_version(stored: bytes) -> bytes | None:
    """The serialized value in a stored version, or in its changelog record; None if it is a deletion."""
    return None if stored == DELETED_VERSION else stored[1:]


def version_of(value: bytes) -> bytes:
    """A serialized value as a version has it."""
    return _PRESENT + value


def version_index(inner: BytesStore) -> ExpiryIndexStore:
    """The wrapper below a versioned store that finds each version by the time that it is valid from."""
    return ExpiryIndexStore(inner, lambda row_key, _: version_timestamp_ms(row_key))
