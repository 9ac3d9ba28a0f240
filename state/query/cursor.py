"""The opaque cursor of a paged scan: where the next page begins, signed so that nobody makes one up.

Format, base64url of: version byte 1, HMAC-SHA-256 cut to 16 bytes, then the key after which to go on. The signature
covers the version, the scan that the cursor belongs to and the key, so it fits no other scan.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from state.errors import InvalidArgumentError
from state.query.json_rows import decode_base64url

_VERSION = b"\x01"
_MAC_BYTES = 16
_KEY_BYTES = 32


class CursorCodec:
    """Makes and reads cursors with one secret key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def encode(self, scan: bytes, after: bytes) -> str:
        """The cursor for the rest of `scan` behind the row at key `after`."""
        return base64.urlsafe_b64encode(_VERSION + self._mac(scan, after) + after).decode().rstrip("=")

    def decode(self, scan: bytes, cursor: str) -> bytes:
        """The key after which to go on.

        Raises:
            InvalidArgumentError: if the cursor was not made for this scan by a node with the same key.
        """
        data = decode_base64url(cursor, "the cursor")
        mac, after = data[1 : 1 + _MAC_BYTES], data[1 + _MAC_BYTES :]
        if data[:1] != _VERSION or not hmac.compare_digest(mac, self._mac(scan, after)):
            raise InvalidArgumentError("the cursor doesn't belong to this scan: begin again without one")
        return after

    def _mac(self, scan: bytes, after: bytes) -> bytes:
        text = b"%b%d:%b%b" % (_VERSION, len(scan), scan, after)
        return hmac.new(self._key, text, hashlib.sha256).digest()[:_MAC_BYTES]


def load_cursor_key(path: Path) -> bytes:
    """The key in a file, readable by its owner only; made on first use. Nodes that share the file share cursors."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(_KEY_BYTES))
    try:
        os.link(temporary, path)  # unlike a rename, it never replaces the key that another node has just made
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
    return path.read_bytes()
