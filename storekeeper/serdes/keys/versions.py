"""Row keys of versioned stores: all versions of a key together, the newest first.

Byte layout, big-endian:

    key with its end marked (see `escaping`) · uint64 2^63 - 1 - timestamp

The timestamp is inverted so that "the version valid at t" is the first row at or after t's row key.
"""

from __future__ import annotations

from storekeeper.serdes.keys.escaping import after_key, ended, restored
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS

SUFFIX_BYTES = 8


def version_row_key(key: bytes, timestamp_ms: int) -> bytes:
    """The row key of one version."""
    return ended(key) + (MAX_TIMESTAMP_MS - timestamp_ms).to_bytes(8, "big")


def decode_version_row_key(row_key: bytes) -> tuple[bytes, int]:
    """(key, timestamp in ms) of a row key that `version_row_key` made; bytes from elsewhere are not detected."""
    return restored(row_key, SUFFIX_BYTES), version_timestamp_ms(row_key)


def version_timestamp_ms(row_key: bytes) -> int:
    """The version's timestamp alone, epoch milliseconds: it determines the version's age."""
    return MAX_TIMESTAMP_MS - int.from_bytes(row_key[-8:], "big")


def version_bounds(key: bytes, newest_ms: int) -> tuple[bytes, bytes]:
    """The scan that holds a key's versions with `timestamp <= newest_ms`, newest first, as start and exclusive stop."""
    prefix = ended(key)
    return prefix + (MAX_TIMESTAMP_MS - newest_ms).to_bytes(8, "big"), after_key(prefix)
