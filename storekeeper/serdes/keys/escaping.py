r"""Keys of any length in front of a suffix, in the order of the keys.

Kafka Streams puts the suffix right behind the key, so that rows of "a" and "aa" interleave and every range must be
filtered. Here the key is ended so that it sorts as a whole, as in FoundationDB's tuple layer:

    each 00 inside the key  ->  00 ff
    end of the key          ->  00

A suffix must begin with a byte below ff, which timestamps below 2^63 do. Then, compared as unsigned bytes,
    "a" 00 <suffix>  <  "a\x00" = 61 00 ff 00 <suffix>  <  "aa" 00 <suffix>  <  "b" 00 <suffix>.
"""

from __future__ import annotations

END = b"\x00"


def ended(key: bytes) -> bytes:
    """The key with its end marked: the prefix of all rows of that key and of no other's."""
    if b"\x00" in key:
        key = key.replace(b"\x00", b"\x00\xff")
    return key + END


def restored(row_key: bytes, suffix_bytes: int) -> bytes:
    """The key in front of an end mark and a suffix of `suffix_bytes`."""
    key = row_key[: -suffix_bytes - 1]
    if b"\x00" in key:
        return key.replace(b"\x00\xff", b"\x00")
    return key


def is_ended(row_key: bytes, suffix_bytes: int) -> bool:
    """Whether a row key may be a key with its end marked, and a suffix of `suffix_bytes`."""
    return len(row_key) > suffix_bytes and row_key[-suffix_bytes - 1 :].startswith(END)


def after_key(ended_key: bytes) -> bytes:
    """A bound behind all rows of an ended key, and before those of every longer key that begins with it."""
    return ended_key + b"\xff"


def prefix_stop(prefix: bytes) -> bytes | None:
    """The first key behind all that begin with `prefix`, or None if there is none (empty, or all ff)."""
    stripped = prefix.rstrip(b"\xff")
    if not stripped:
        return None
    return stripped[:-1] + bytes([stripped[-1] + 1])
