"""Versions of a table's rows that stay decoded while a batch runs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

import msgspec

from storekeeper.serdes.keys.versions import version_bounds, version_row_key, version_timestamp_ms
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.stores.bytes_store import Entry
from storekeeper.stores.stream_time import check_key_and_time
from storekeeper.stores.versioned import (
    DELETED_VERSION,
    NOT_PUT_MS,
    VALID_TO_UNDEFINED_MS,
    VersionedKeyValueStore,
    VersionedRecord,
    value_of_version,
    version_of,
)
from storekeeper.topology.cells import Cells


class VersionCell(msgspec.Struct, gc=False, eq=False):
    """One version of a key; attributes as those of `Cell`. `value` None is a deletion; it is valid from `at_ms`;
    `timestamp_ms` is that of the record under way when it was put.
    """

    key: bytes
    at_ms: int
    value: Any = None
    timestamp_ms: int = -1
    trace: bytes | None = None


class _Versions(msgspec.Struct, eq=False):
    """The latest versions of a key, oldest first; all of them if it is complete. Each is valid from its time on; if
    `complete`, there are no older ones.
    """

    times: list[int]
    cells: list[VersionCell]
    complete: bool


class VersionCells(Cells[VersionCell]):
    """The rows of a versioned store. `get` and `put` are as those of the store."""

    def __init__(self, store: VersionedKeyValueStore[Any, Any], *more: Any) -> None:
        super().__init__(store, *more)
        self._known: dict[bytes, _Versions] = {}

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord[Any] | None:
        """The version valid at `as_of`, epoch milliseconds; the latest if None."""
        check_key_and_time(key)
        at_ms = MAX_TIMESTAMP_MS if as_of is None else as_of
        versions = self._back_to(self._encode_key(key), max(at_ms, 0))
        place = bisect_right(versions.times, at_ms)
        if not place or versions.cells[place - 1].value is None:
            return None
        valid_to_ms = versions.times[place] if place < len(versions.times) else VALID_TO_UNDEFINED_MS
        if as_of is not None and valid_to_ms != VALID_TO_UNDEFINED_MS and as_of < self._horizon_ms:
            return None
        cell = versions.cells[place - 1]
        return VersionedRecord(cell.value, cell.at_ms, valid_to_ms)

    def put(self, key: Any, value: Any, timestamp_ms: int) -> int:
        """Adds a version; None means that the key was deleted at that time. The value must be as it will be read."""
        check_key_and_time(key, timestamp_ms)
        if timestamp_ms < self._horizon_ms:
            self._time.dropped_total += 1
            return NOT_PUT_MS
        data = self._encode_key(key)
        versions = self._known.get(data)
        if versions is None and timestamp_ms > self._stored_until_ms:
            versions = self._known[data] = _Versions([], [], complete=False)  # the store has no later one
        elif versions is None or not versions.times or timestamp_ms < versions.times[0]:
            versions = self._back_to(data, timestamp_ms)
        self._time.observe(timestamp_ms)
        place = bisect_left(versions.times, timestamp_ms)
        if place == len(versions.times) or versions.times[place] != timestamp_ms:
            versions.times.insert(place, timestamp_ms)
            versions.cells.insert(place, VersionCell(data, timestamp_ms))
        cell = versions.cells[place]
        cell.value, cell.timestamp_ms, cell.trace = value, self._context.timestamp_ms, self._context.trace
        self._changed[cell] = None
        return versions.times[place + 1] if place + 1 < len(versions.times) else VALID_TO_UNDEFINED_MS

    def _rows(self) -> list[Entry]:
        encode = self._encode
        return [
            (
                version_row_key(cell.key, cell.at_ms),
                DELETED_VERSION if cell.value is None else version_of(encode(cell.value)),
            )
            for cell in self._changed
        ]

    @property
    def _horizon_ms(self) -> int:
        return self._time.observed_ms - self._time.retention_ms

    def _back_to(self, key: bytes, at_ms: int) -> _Versions:
        """The versions of a key, with the one that is valid at a time."""
        versions = self._known.get(key)
        if versions is None:
            versions = self._known[key] = _Versions([], [], complete=False)
        times = versions.times
        if versions.complete or (times and times[0] <= at_ms):
            return versions
        older: list[VersionCell] = []
        with self._transaction.scan(*version_bounds(key, times[0] - 1 if times else MAX_TIMESTAMP_MS)) as rows:
            for row_key, stored in rows:
                value = value_of_version(stored)
                cell = VersionCell(key, version_timestamp_ms(row_key), None if value is None else self._decode(value))
                older.append(cell)
                if cell.at_ms <= at_ms:
                    break
            else:
                versions.complete = True
        versions.cells[:0] = reversed(older)
        times[:0] = [cell.at_ms for cell in reversed(older)]
        return versions
