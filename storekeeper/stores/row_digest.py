"""Digests of a store's content: equal content gives equal digests, whatever the order, in Python and in Spark alike.

An entry's hash is `xxh64(value, seed=xxh64(key, seed=42))`, which is Spark SQL's `xxhash64(key, value)` of two binary
columns, read as an unsigned number. The hash of a snapshot's row also covers the offset and the time of its
changelog record: Spark's `xxhash64(key, value, offset, timestamp_ms)`. That of a node's row covers the time and the
schema version: `xxhash64(key, value, timestamp_ms, schema_version)`. A digest is the sum of hashes modulo 2^64, one per
changelog partition. Sums can be carried on: taking an old entry out and putting a new one in needs no other entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from xxhash import xxh64_intdigest

BUCKETS = 64
"""Two copies of a partition compare a digest for each, and then only the entries of those that differ."""
_BUCKET_SEED = 11
_SPARK_SEED = 42
_MODULUS = 1 << 64
_LONG = Struct("<q").pack


def entry_hash(key: bytes, value: bytes) -> int:
    """The hash of one entry, 0 <= hash < 2^64."""
    return xxh64_intdigest(value, seed=xxh64_intdigest(key, seed=_SPARK_SEED))


def row_hash(key: bytes, value: bytes, offset: int, timestamp_ms: int) -> int:
    """The hash of one row of a snapshot, 0 <= hash < 2^64."""
    return xxh64_intdigest(_LONG(timestamp_ms), seed=xxh64_intdigest(_LONG(offset), seed=entry_hash(key, value)))


def stored_row_hash(key: bytes, value: bytes, timestamp_ms: int, schema_version: int) -> int:
    """The hash of one row of a node's store, 0 <= hash < 2^64."""
    return xxh64_intdigest(
        _LONG(schema_version), seed=xxh64_intdigest(_LONG(timestamp_ms), seed=entry_hash(key, value))
    )


def digest(entries: Iterable[tuple[bytes, bytes]]) -> int:
    """The digest of entries (key, value) with distinct keys. Of none it is 0."""
    return sum(entry_hash(key, value) for key, value in entries) % _MODULUS


def bucket_of(key: bytes) -> int:
    """The bucket that a key belongs to, 0 to `BUCKETS` - 1."""
    return xxh64_intdigest(key, seed=_BUCKET_SEED) % BUCKETS


def moved(before: int, *, added: int, removed: int) -> int:
    """The digest after entries came and went: `added` and `removed` are sums of their hashes, of any size."""
    return (before + added - removed) % _MODULUS


def to_hex(number: int) -> str:
    """A digest as 16 hexadecimal digits."""
    return f"{number:016x}"


def from_hex(text: str) -> int:
    """The digest that `to_hex` wrote.

    Raises:
        ValueError: the text is not a hexadecimal number.
    """
    return int(text, 16)
