"""Keys in paths. They are read from the path as it was sent: in a decoded path, `/` and `%2F` look the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from state.errors import InvalidArgumentError
from state.protocol.keys import decode_base64url


def raw_tail(scope: Mapping[str, Any], segments: int) -> bytes:
    """The rest of the path behind the first `segments` segments, still percent-encoded."""
    path: bytes = scope["raw_path"]
    return b"/".join(path.split(b"/")[segments + 1 :])


def key_behind(scope: Mapping[str, Any], segments: int, key_format: str = "string") -> bytes:
    """The key that follows the first `segments` segments of the path: slashes in it may be encoded or not.

    Raises:
        InvalidArgumentError: if there is none, or `key_format` is base64url and it is not written so.
    """
    key = unquote_to_bytes(raw_tail(scope, segments))
    if not key:
        raise InvalidArgumentError("the key is empty: put it at the end of the path, percent-encoded")
    return decode_base64url(key, "the key") if key_format == "base64url" else key


def two_keys_behind(scope: Mapping[str, Any], segments: int, key_format: str) -> tuple[bytes, bytes]:
    """The two keys that follow the first `segments` segments: slashes in them must be encoded. Either may be empty.

    Raises:
        InvalidArgumentError: if there are not two, or `key_format` is base64url and one is not written so.
    """
    parts = raw_tail(scope, segments).split(b"/")
    if len(parts) != 2:
        raise InvalidArgumentError("a range needs two keys: /range/{from}/{to}, with slashes in keys written as %2F")
    first, last = map(unquote_to_bytes, parts)
    if key_format == "base64url":
        return decode_base64url(first, "the first key"), decode_base64url(last, "the last key")
    return first, last


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
