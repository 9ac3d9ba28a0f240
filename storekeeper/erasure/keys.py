"""The keys that an erasure removes: which rows are theirs, and what may be shown of them."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from storekeeper.snapshots.as_of import rows_of_key
from storekeeper.stores.store_definitions import ServedKind

LEAST_BYTES = 4
"""Shorter keys occur by chance in anything: only rows are compared with them."""
_PATTERN_BYTES = 8192
"""What is looked for in one pass: the automaton for much more outgrows the memory that Arrow gives it."""
_LONG_BYTES = 256
"""A longer one is looked for by itself: the automaton for one of 100,000 takes minutes, and there is none for more."""
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
    def _needles(self) -> list[bytes]:
        return sorted({form for key in self.keys if len(key) >= LEAST_BYTES for form in _forms(key)})

    @cached_property
    def _patterns(self) -> list[str]:
        short = [needle for needle in self._needles if len(needle) <= _LONG_BYTES]
        step = max(1, _PATTERN_BYTES // max(map(len, short), default=1))
        parts = (short[at : at + step] for at in range(0, len(short), step))
        return ["|".join("".join(f"\\x{byte:02x}" for byte in needle) for needle in part) for part in parts]

    def are_in(self, contents: pa.Array) -> pa.BooleanArray:
        """Of each of some texts or byte strings, whether it has the bytes of a key, plain or as JSON escapes them."""
        contents = contents.cast(pa.large_binary())
        long = (needle for needle in self._needles if len(needle) > _LONG_BYTES)
        found = chain(
            (pc.match_substring_regex(contents, pattern=one) for one in self._patterns),
            (pc.match_substring(contents, pattern=one) for one in long),
        )
        is_found = reduce(pc.or_, found, pa.repeat(pa.scalar(False), len(contents)))
        return is_found.fill_null(False)

    def hashes(self, salt: bytes) -> list[str]:
        """A salted hash of each key, which takes a noticeable time: few of all possible keys can be tried."""
        return [hashlib.scrypt(key, salt=salt, **_SCRYPT).hex() for key in self.keys]


def _forms(key: bytes) -> set[bytes]:
    """The bytes of a key as texts have them: plain, and in JSON with and without letters beyond ASCII."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return {key}
    return {key, *(json.dumps(text, ensure_ascii=ascii_alone)[1:-1].encode() for ascii_alone in (True, False))}
