"""Row keys of session stores: all sessions of a key together, ordered by their end.

Byte layout, big-endian:

    key with its end marked (see `escaping`) · int64 session end · int64 session start

The end comes first because a search for sessions to merge begins with it, and because it determines a session's age.
"""

from __future__ import annotations

import struct

from storekeeper.serdes.keys.escaping import after_key, ended, restored

SUFFIX_BYTES = 16
_SUFFIX = struct.Struct(">QQ")


def session_row_key(key: bytes, start_ms: int, end_ms: int) -> bytes:
    """The row key of one session; both ends belong to it."""
    return ended(key) + _SUFFIX.pack(end_ms, start_ms)


def decode_session_row_key(row_key: bytes) -> tuple[bytes, int, int]:
    """(key, start in ms, end in ms)."""
    end_ms, start_ms = _SUFFIX.unpack_from(row_key, len(row_key) - SUFFIX_BYTES)
    return restored(row_key, SUFFIX_BYTES), start_ms, end_ms


def session_end_ms(row_key: bytes) -> int:
    """The session's end alone: it determines the session's age."""
    return int.from_bytes(row_key[-16:-8], "big")


def session_bounds(key: bytes, earliest_end_ms: int) -> tuple[bytes, bytes]:
    """The scan that holds a key's sessions with `end >= earliest_end_ms`, as start and exclusive stop."""
    prefix = ended(key)
    return prefix + _SUFFIX.pack(earliest_end_ms, 0), after_key(prefix)
