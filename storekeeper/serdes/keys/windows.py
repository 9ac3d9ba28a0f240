"""Row keys of window stores: all windows of a key together, in time order.

Byte layout, big-endian:

    key with its end marked (see `escaping`) · int64 window start, 0 to 2^63 - 1 · uint32 sequence

The sequence tells duplicates of one key and start apart; it is 0 in a store without duplicates. The first byte of
the start is at most 7f, as `escaping` needs.
"""

from __future__ import annotations

import struct

from storekeeper.serdes.keys.escaping import after_key, ended, restored

MAX_TIMESTAMP_MS = (1 << 63) - 1
MAX_SEQUENCE = (1 << 32) - 1
SUFFIX_BYTES = 12
_SUFFIX = struct.Struct(">QI")


def window_row_key(key: bytes, start_ms: int, sequence: int = 0) -> bytes:
    """The row key of one window."""
    return ended(key) + _SUFFIX.pack(start_ms, sequence)


def decode_window_row_key(row_key: bytes) -> tuple[bytes, int, int]:
    """(key, window start in ms, sequence)."""
    start_ms, sequence = _SUFFIX.unpack_from(row_key, len(row_key) - SUFFIX_BYTES)
    return restored(row_key, SUFFIX_BYTES), start_ms, sequence


def window_start_ms(row_key: bytes) -> int:
    """The window start alone: it determines the window's age."""
    return int.from_bytes(row_key[-12:-4], "big")


def window_bounds(key: bytes, from_ms: int, to_ms: int) -> tuple[bytes, bytes]:
    """The scan that holds a key's windows with `from_ms <= start <= to_ms`, as start and exclusive stop."""
    prefix = ended(key)
    return prefix + _SUFFIX.pack(from_ms, 0), prefix + _SUFFIX.pack(to_ms, MAX_SEQUENCE) + b"\x00"


def key_bounds(key_from: bytes | None, key_to: bytes | None) -> tuple[bytes | None, bytes | None]:
    """The scan that holds all rows of the keys from `key_from` to `key_to`, both included; None leaves an end open."""
    return (
        None if key_from is None else ended(key_from),
        None if key_to is None else after_key(ended(key_to)),
    )
