"""Row keys that have times behind their keys, by the kind of their store.

The row keys of other kinds are keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from storekeeper.serdes.keys import sessions, versions, windows
from storekeeper.serdes.keys.escaping import is_ended


@dataclass(frozen=True, slots=True)
class RowKeyLayout:
    """How the row keys of a kind of store are laid out.

    Attributes:
        suffix_bytes: how many bytes stand behind the mark of the key's end.
        times: what its times are named.
        decode: splits a row key that a store made: the key, its times, and perhaps more.
    """

    suffix_bytes: int
    times: tuple[str, ...]
    decode: Callable[[bytes], tuple[Any, ...]]

    def split(self, row_key: bytes) -> tuple[Any, ...] | None:
        """The key and its times; None if no such store makes the row key, as a foreign record may have any bytes."""
        if not is_ended(row_key, self.suffix_bytes):
            return None
        parts = self.decode(row_key)[: 1 + len(self.times)]
        for time_ms in parts[1:]:  # `all` takes twice as long, and scans do this for each row
            if not 0 <= time_ms <= windows.MAX_TIMESTAMP_MS:
                return None
        return parts


LAYOUTS: Mapping[str, RowKeyLayout] = MappingProxyType({
    "window": RowKeyLayout(windows.SUFFIX_BYTES, ("start_ms",), windows.decode_window_row_key),
    "session": RowKeyLayout(sessions.SUFFIX_BYTES, ("start_ms", "end_ms"), sessions.decode_session_row_key),
    "versioned": RowKeyLayout(versions.SUFFIX_BYTES, ("valid_at_ms",), versions.decode_version_row_key),
})  # fmt: skip
"""By the kind of a store that apps make, or of one that nodes serve."""


def key_of_row(kind: str, row_key: bytes) -> bytes | None:
    """The key that a row belongs to; None if no store of that kind makes the row key."""
    layout = LAYOUTS.get(kind)
    if layout is None:
        return row_key
    split = layout.split(row_key)
    return None if split is None else split[0]
