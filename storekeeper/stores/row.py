"""A row of a local replica: schema version and timestamp in front of the value, a checksum over everything.

Byte layout, format 1, big-endian; 15 bytes, then the value:

    offset  bytes  what
    0       1      format, 0x01
    1       2      schema version of the value, uint16
    3       8      timestamp of the changelog record, epoch milliseconds, int64
    11      4      CRC-32 (IEEE) of bytes 0..10 and the value
    15      n      the value, as it stands in the changelog

RocksDB's own checksums cover its files; this one covers the way from the changelog to the reader, on every backend.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from storekeeper.errors import InvalidTimestampError, SerializationError, StoreCorruptedError

FORMAT = 1
HEADER_BYTES = 15
_HEAD = struct.Struct(">BHq")
_ROW = struct.Struct(">BHqI")


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One decoded row.

    Attributes:
        schema_version: version of the schema that `value` was written with, 0 to 65,535.
        timestamp_ms: the changelog record's timestamp, epoch milliseconds.
        value: the changelog value.
    """

    schema_version: int
    timestamp_ms: int
    value: bytes


def encode_row(value: bytes, *, schema_version: int, timestamp_ms: int) -> bytes:
    """The bytes to store for a changelog value.

    Raises:
        SerializationError: `schema_version` is not in 0 to 65,535.
        InvalidTimestampError: `timestamp_ms` doesn't fit 64 bits.
    """
    try:
        head = _HEAD.pack(FORMAT, schema_version, timestamp_ms)
    except struct.error as error:
        if not 0 <= schema_version <= 0xFFFF:
            raise SerializationError(f"schema version {schema_version} is not in 0 to 65535") from error
        raise InvalidTimestampError(f"timestamp {timestamp_ms} is no 64-bit number of epoch milliseconds") from error
    return b"%b%b%b" % (head, zlib.crc32(value, zlib.crc32(head)).to_bytes(4, "big"), value)


def decode_row(row: bytes) -> ReplicaRow:
    """The parts of a stored row.

    Raises:
        StoreCorruptedError: the checksum doesn't match, or the row is too short.
        SerializationError: the row is intact, but of a later format than this code supports.
    """
    if len(row) < HEADER_BYTES:
        msg = f"a row of {len(row)} bytes is shorter than its header; set the store aside and restore it"
        raise StoreCorruptedError(msg)
    row_format, schema_version, timestamp_ms, checksum = _ROW.unpack_from(row)
    value = row[HEADER_BYTES:]
    if zlib.crc32(value, zlib.crc32(row[:11])) != checksum:
        raise StoreCorruptedError("a row's checksum doesn't match; set the store aside and restore it")
    if row_format != FORMAT:
        msg = f"a row has format {row_format}, later than the {FORMAT} that this version reads; update storekeeper"
        raise SerializationError(msg)
    return ReplicaRow(schema_version, timestamp_ms, value)
