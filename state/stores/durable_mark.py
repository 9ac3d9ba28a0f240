"""The mark that makes a rolled-back store visible: a lower bound of what must still be there at the next open.

RocksDB opens happily when its newest log was deleted or cut at a record's edge: it then shows an older state. The
mark says which sequence number was known to be on disk; a database that opens below it has lost writes.

File format, version 1, 20 bytes, big-endian: `SKDM` magic, uint32 version, uint64 sequence number, uint32 CRC-32 of
the 16 bytes before.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

from state.errors import StoreCorruptedError

FILE_NAME = "DURABLE"
_BODY = struct.Struct(">4sIQ")
_MAGIC = b"SKDM"
_VERSION = 1


def encoded(sequence: int) -> bytes:
    """The file's bytes for a sequence number."""
    body = _BODY.pack(_MAGIC, _VERSION, sequence)
    return body + zlib.crc32(body).to_bytes(4, "big")


def read_mark(directory: Path) -> int | None:
    """The sequence number that the store at `directory` must have reached, or None if it has no mark.

    Raises:
        StoreCorruptedError: the mark itself is damaged.
    """
    try:
        data = (directory / FILE_NAME).read_bytes()
    except FileNotFoundError:
        return None
    if len(data) == _BODY.size + 4:
        _, _, sequence = _BODY.unpack_from(data)
        if data == encoded(sequence):
            return int(sequence)
    msg = f"the durable mark in {directory} is damaged; set the store aside and restore it"
    raise StoreCorruptedError(msg)


def write_mark(directory: Path, sequence: int) -> None:
    """Replaces the mark atomically and waits for the disk."""
    temporary = directory / f"{FILE_NAME}.tmp"
    with temporary.open("wb") as file:
        file.write(encoded(sequence))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(directory / FILE_NAME)
