"""The mark that makes a rolled-back store visible: what must still be there at the next open.

RocksDB opens without an error when its newest log was deleted or its manifest lost the last records: it then shows an
older state, or one column family older than the other. The mark records what was on disk: the sequence number that the
database had reached, and the bytes of its manifest so far, which is append-only.

File format, version 1, 40 bytes, big-endian:

    4s  magic `SKDM`
    I   version
    Q   sequence number
    Q   number of the manifest file, 0 if there was none
    Q   bytes of it that are covered
    I   CRC-32 of those bytes
    I   CRC-32 of the 36 bytes before
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from storekeeper.errors import StoreCorruptedError
from storekeeper.whole_files import write_whole

FILE_NAME = "DURABLE"
_BODY = struct.Struct(">4sIQQQI")
_MAGIC = b"SKDM"
_VERSION = 1
_MANIFEST_PREFIX = "MANIFEST-"


@dataclass(frozen=True, slots=True)
class DurableMark:
    """What a store must have at its next open. `manifest_bytes` of the current manifest file are covered; the checksum
    is CRC-32 of that much.
    """

    sequence: int
    manifest_number: int = 0
    manifest_bytes: int = 0
    manifest_checksum: int = 0

    def encoded(self) -> bytes:
        """The file's bytes."""
        body = _BODY.pack(
            _MAGIC, _VERSION, self.sequence, self.manifest_number, self.manifest_bytes, self.manifest_checksum
        )
        return body + zlib.crc32(body).to_bytes(4, "big")


def read_mark(directory: Path) -> DurableMark | None:
    """The mark of the store at `directory`, or None if it has none.

    Raises:
        StoreCorruptedError: the mark itself is damaged.
    """
    try:
        data = (directory / FILE_NAME).read_bytes()
    except FileNotFoundError:
        return None
    if len(data) == _BODY.size + 4:
        mark = DurableMark(*_BODY.unpack_from(data)[2:])
        if data == mark.encoded():
            return mark
    raise StoreCorruptedError(f"the durable mark in {directory} is damaged; set the store aside and restore it")


def write_mark(directory: Path, mark: DurableMark) -> None:
    """Replaces the mark atomically and waits for the disk."""
    write_whole(directory / FILE_NAME, mark.encoded(), durable=True)


def observed_mark(directory: Path, sequence: int) -> DurableMark:
    """A mark of what the database at `directory` has on disk now."""
    number = _current_manifest(directory)
    manifest = (directory / f"{_MANIFEST_PREFIX}{number:06d}").read_bytes()
    return DurableMark(sequence, number, len(manifest), zlib.crc32(manifest))


def check_whole(directory: Path, mark: DurableMark) -> None:
    """Checks, before the database is opened, that its manifest still matches the mark.

    Raises:
        StoreCorruptedError: it is gone, or lost or changed bytes.
    """
    if mark.manifest_number == 0:
        return
    try:
        number = _current_manifest(directory)
        manifest = (directory / f"{_MANIFEST_PREFIX}{number:06d}").read_bytes()
    except (OSError, ValueError) as error:
        raise StoreCorruptedError(f"the store at {directory} lost its manifest; set it aside and restore it") from error
    # Every open starts a new manifest: one later than the mark's means that the last open wrote no mark.
    if number > mark.manifest_number:
        return
    covered = manifest[: mark.manifest_bytes]
    if number < mark.manifest_number or len(covered) < mark.manifest_bytes:
        raise StoreCorruptedError(f"the manifest of the store at {directory} was cut; set it aside and restore it")
    if zlib.crc32(covered) != mark.manifest_checksum:
        raise StoreCorruptedError(f"the manifest of the store at {directory} was changed; set it aside and restore it")


def _current_manifest(directory: Path) -> int:
    name = (directory / "CURRENT").read_text(encoding="ascii").strip()
    if not name.startswith(_MANIFEST_PREFIX):
        raise ValueError(f"{name!r} names no manifest")
    return int(name.removeprefix(_MANIFEST_PREFIX))
