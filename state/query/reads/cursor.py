"""The opaque cursor of a paged scan: where the next page begins, signed so that it can't be forged.

Format, base64url of: version byte 2, HMAC-SHA-256 cut to 16 bytes, then the key after which to go on. The signature
covers the version, the scan that the cursor belongs to and the key, so it fits no other scan. It is made with the
cluster's secret, so every node accepts every other node's cursors.
"""

from __future__ import annotations

import base64
import hmac

from state.errors import InvalidArgumentError
from state.protocol.keys import decode_base64url
from state.security.cluster_secret import sign

_VERSION = b"\x02"
_MAC_BYTES = 16


class CursorCodec:
    """Makes and reads cursors with the cluster's secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def encode(self, scan: bytes, after: bytes) -> str:
        """The cursor for the rest of `scan` behind the row at key `after`."""
        return base64.urlsafe_b64encode(_VERSION + self._mac(scan, after) + after).decode().rstrip("=")

    def decode(self, scan: bytes, cursor: str) -> bytes:
        """The key after which to go on.

        Raises:
            InvalidArgumentError: if the cursor was not made for this scan by a node of the same cluster.
        """
        data = decode_base64url(cursor, "the cursor")
        mac, after = data[1 : 1 + _MAC_BYTES], data[1 + _MAC_BYTES :]
        if data[:1] != _VERSION or not hmac.compare_digest(mac, self._mac(scan, after)):
            raise InvalidArgumentError("the cursor doesn't belong to this scan: begin again without one")
        return after

    def _mac(self, scan: bytes, after: bytes) -> bytes:
        text = b"%b%d:%b%b" % (_VERSION, len(scan), scan, after)
        return sign(self._secret, "cursor", text)[:_MAC_BYTES]
