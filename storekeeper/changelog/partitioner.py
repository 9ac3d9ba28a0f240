"""Kafka's default partitioner: the 32-bit murmur2 of the key, so that every Kafka client finds the same partition."""

from __future__ import annotations

import struct
from functools import cache

from storekeeper.errors import InvalidArgumentError, NullKeyError

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


@cache
def _words(length: int) -> struct.Struct:
    return struct.Struct(f"<{length // 4}I")


def murmur2(data: bytes) -> int:
    """Kafka's `Utils.murmur2`, as an unsigned 32-bit number."""
    length = len(data)
    value = _SEED ^ length
    for word in _words(length & ~3).unpack_from(data):
        mixed = word * _M & _MASK
        value = (value * _M & _MASK) ^ ((mixed ^ mixed >> 24) * _M & _MASK)
    tail = length & 3
    if tail:
        value = (value ^ int.from_bytes(data[-tail:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15


def partition_for(key: bytes, partitions: int) -> int:
    """The partition, 0 to `partitions` - 1, that holds `key`: the same as Kafka's Java producer chooses.

    Raises:
        NullKeyError: if the key is None: records without a key have no partition of their own.
        InvalidArgumentError: if there is not at least one partition.
    """
    if key is None:
        raise NullKeyError("a record without a key has no partition: pass the key's bytes")
    if partitions < 1:
        raise InvalidArgumentError(f"a topic has at least one partition, not {partitions}")
    return (murmur2(key) & 0x7FFFFFFF) % partitions
