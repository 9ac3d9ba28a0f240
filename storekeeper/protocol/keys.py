"""Keys as text: percent-encoded in paths, or base64url where that can't be."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import quote_from_bytes

from storekeeper.errors import InvalidArgumentError

_DOTS = frozenset({b".", b"..", b""})


def key_segments(*keys: str | bytes) -> tuple[list[str], str]:
    """Keys as path segments, and the query parameter that says how they are written.

    They are percent-encoded, or base64url if one is a dot segment, which HTTP clients would remove.
    """
    encoded = [key.encode() if isinstance(key, str) else key for key in keys]
    if _DOTS.isdisjoint(encoded):
        return [quote_from_bytes(key, safe="") for key in encoded], "key_format=string"
    return [base64.urlsafe_b64encode(key).decode() for key in encoded], "key_format=base64url"


def decode_base64url(text: str | bytes, what: str) -> bytes:
    """Reads base64url, with or without padding.

    Raises:
        InvalidArgumentError: if it isn't; the message names `what`.
    """
    data = text.encode() if isinstance(text, str) else text
    try:
        if b"+" in data or b"/" in data:
            raise ValueError("the other alphabet")
        return base64.b64decode(data + b"=" * (-len(data) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgumentError(f"{what} is not base64url") from error
