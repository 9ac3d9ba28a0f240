"""Headers of records that wait in a store: they go out with the record, whichever record lets it go.

Length of all, 4 bytes big-endian; then for each header the length of its name, 4 bytes, the name in UTF-8, the length
of its value, 4 bytes, or ffffffff for none, the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storekeeper.stores.record_context import Header

_LENGTH_BYTES = 4
_NO_VALUE = b"\xff" * _LENGTH_BYTES
_NONE = bytes(_LENGTH_BYTES)


def encode_headers(headers: Sequence[Header]) -> bytes:
    """The headers' bytes."""
    if not headers:
        return _NONE
    parts = []
    for name, value in headers:
        data = name.encode()
        # The broker's client gives None for a header without a value.
        parts += [_length(data), data, _NO_VALUE if value is None else _length(value) + value]
    block = b"".join(parts)
    return _length(block) + block


def decode_headers(data: bytes, at: int = 0) -> tuple[Sequence[Header], int]:
    """The headers that begin at an offset, and where they end."""
    if data.startswith(_NONE, at):
        return (), at + _LENGTH_BYTES
    at, end = _counted(data, at)
    headers: list[Any] = []
    while at < end:
        at, name_end = _counted(data, at)
        name = data[at:name_end].decode()
        if data[name_end : name_end + _LENGTH_BYTES] == _NO_VALUE:
            at = name_end + _LENGTH_BYTES
            headers.append((name, None))
        else:
            start, at = _counted(data, name_end)
            headers.append((name, data[start:at]))
    return tuple(headers), end


def _length(data: bytes) -> bytes:
    return len(data).to_bytes(_LENGTH_BYTES, "big")


def _counted(data: bytes, at: int) -> tuple[int, int]:
    start = at + _LENGTH_BYTES
    return start, start + int.from_bytes(data[at:start], "big")
