"""Answers made from rows, kept until their row changes: the follower drops a key when it writes it.

Readers fill the cache while the follower writes, without a lock between them. Stale entries are kept out as follows.
The follower first writes the row, then increases `Replica.writes`, then drops the key. A reader notes `writes`, reads
the row, puts its entry, and drops it again if `writes` has changed. So a stale entry is dropped by the follower, if it
was put before the follower's drop, or by the reader.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_ENTRY_BYTES = 250  # an entry's place in a table, its tuple and the headers of two objects

Cached = tuple[Any, bytes, int, bool]
"""The replica, the answer made from its row, where in it the row itself begins, and whether there is a row."""


class RowCache:
    """Bounded: when the newer half is full, the older half is forgotten. One thread puts, another one drops.

    Attributes:
        hits: rows that were answered from here; the putting thread counts them.
        misses: rows that were read from the store instead.
    """

    def __init__(self, max_bytes: int) -> None:
        self.hits = self.misses = 0
        self._half_bytes = max_bytes // 2
        self._bytes = 0
        self._young: dict[bytes, Cached] = {}
        self._old: dict[bytes, Cached] = {}

    def get(self, key: bytes) -> Cached | None:
        """The entry at `key`, or None."""
        return self._young.get(key) or self._old.get(key)

    def put(self, key: bytes, entry: Cached) -> None:
        """Adds an entry. The putting thread only."""
        size = len(key) + len(entry[1]) + _ENTRY_BYTES
        if size > self._half_bytes:
            return
        if self._bytes + size > self._half_bytes:
            self._old, self._young, self._bytes = self._young, {}, 0
        self._young[key] = entry
        self._bytes += size

    def drop(self, keys: Iterable[bytes]) -> None:
        """Drops entries."""
        if self._young or self._old:
            for key in keys:
                # The older half first and last: an entry may move from the newer half to it between two lines.
                self._old.pop(key, None)
                self._young.pop(key, None)
                self._old.pop(key, None)

    def clear(self) -> None:
        """Drops everything."""
        self._young, self._old = {}, {}
