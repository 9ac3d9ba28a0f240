"""The keys that an erasure removes: which rows are theirs, and what may be shown of them."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from storekeeper.snapshots.as_of import rows_of_key
from storekeeper.stores.store_definitions import ServedKind

LEAST_BYTES = 4
"""Shorter keys occur by chance in anything: only rows are compared with them."""
_SCRYPT = {"n": 1 << 14, "r": 8, "p": 1, "dklen": 32}


@dataclass(frozen=True)
class ErasedKeys:
    """Some keys of a store of a kind, in their order."""

    kind: ServedKind
    keys: tuple[bytes, ...]

    @cached_property
    def ranges(self) -> list[tuple[bytes, bytes]]:
        """The row keys of each key, from the first to before the second, ascending."""
        return sorted(rows_of_key(self.kind, key) for key in self.keys)

    @cached_property
    def _starts(self) -> list[bytes]:
        return [start for start, _ in self.ranges]

    def holds(self, row_key: bytes | None) -> bool:
        """Whether a row is one of these keys'."""
        if row_key is None:
            return False
        at = bisect_right(self._starts, row_key) - 1
        return at >= 0 and row_key < self.ranges[at][1]

    def without_rows(self, row_keys: Iterable[bytes]) -> set[bytes]:
        """The keys that none of these rows is of."""
        there = sorted(row_keys)

        def has_row(key: bytes) -> bool:
            start, stop = rows_of_key(self.kind, key)
            at = bisect_left(there, start)
            return at < len(there) and there[at] < stop

        return {key for key in self.keys if not has_row(key)}

    @cached_property
    def needles(self) -> list[bytes]:
        """The bytes to look for where keys can't be distinguished from other content."""
        return [key for key in self.keys if len(key) >= LEAST_BYTES]

    def in_any(self, contents: Iterable[bytes | None]) -> bool:
        """Whether the bytes of a key are somewhere in these contents."""
        return any(needle in content for content in contents if content for needle in self.needles)

    def hashes(self, salt: bytes) -> list[str]:
        """A salted hash of each key, which takes a noticeable time: few of all possible keys can be tried."""
        return [hashlib.scrypt(key, salt=salt, **_SCRYPT).hex() for key in self.keys]
