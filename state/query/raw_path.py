"""Keys in paths. They are read from the path as it was sent: in a decoded path, `/` and `%2F` look the same."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from state.errors import InvalidArgumentError

_DOTS = frozenset({b".", b"..", b""})


def raw_tail(scope: Mapping[str, Any], segments: int) -> bytes:
    """The rest of the path behind the first `segments` segments, still percent-encoded."""
    path: bytes = scope["raw_path"]
    return b"/".join(path.split(b"/")[segments + 1 :])


def key_behind(scope: Mapping[str, Any], segments: int) -> bytes:
    """The key that follows the first `segments` segments of the path: slashes in it may be encoded or not.

    Raises:
        InvalidArgumentError: if there is none.
    """
    key = unquote_to_bytes(raw_tail(scope, segments))
    if not key:
        raise InvalidArgumentError("the key is empty: put it at the end of the path, percent-encoded")
    return key


def two_keys_behind(scope: Mapping[str, Any], segments: int) -> tuple[bytes, bytes]:
    """The two keys that follow the first `segments` segments: slashes in them must be encoded. Either may be empty.

    Raises:
        InvalidArgumentError: if there are not two.
    """
    parts = raw_tail(scope, segments).split(b"/")
    if len(parts) != 2:
        raise InvalidArgumentError("a range needs two keys: /range/{from}/{to}, with slashes in keys written as %2F")
    return unquote_to_bytes(parts[0]), unquote_to_bytes(parts[1])


def segments_behind(scope: Mapping[str, Any], segments: int, *, at_least: int, form: str) -> list[bytes]:
    """Everything behind the first `segments` segments, split at the slashes that are not encoded.

    Raises:
        InvalidArgumentError: if there are fewer than `at_least`; the message shows the path's `form`.
    """
    parts = [unquote_to_bytes(part) for part in raw_tail(scope, segments).split(b"/")]
    if len(parts) < at_least or not parts[0]:
        msg = f"the path has not the form {form}"
        raise InvalidArgumentError(msg)
    return parts


def key_segments(*keys: str | bytes) -> tuple[list[str], str]:
    """Keys as path segments, and the query parameter that says how they are written.

    They are percent-encoded, or base64url if one is a dot segment, which HTTP clients would remove.
    """
    encoded = [key.encode() if isinstance(key, str) else key for key in keys]
    if _DOTS.isdisjoint(encoded):
        return [quote_from_bytes(key, safe="") for key in encoded], "key_format=string"
    return [base64.urlsafe_b64encode(key).decode() for key in encoded], "key_format=base64url"
