"""Keys in paths. They are taken from the path as it was sent: a decoded path can't tell `/` from `%2F`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from state.errors import InvalidArgumentError


def raw_tail(scope: Mapping[str, Any], segments: int) -> bytes:
    """What follows the first `segments` segments of the path, still percent-encoded."""
    path: bytes = scope["raw_path"]
    return b"/".join(path.split(b"/")[segments + 1 :])


def key_behind(scope: Mapping[str, Any], segments: int) -> bytes:
    """The key that is the rest of the path behind so many segments: slashes in it may be encoded or not.

    Raises:
        InvalidArgumentError: if there is none.
    """
    key = unquote_to_bytes(raw_tail(scope, segments))
    if not key:
        raise InvalidArgumentError("the key is empty: put it at the end of the path, percent-encoded")
    return key


def two_keys_behind(scope: Mapping[str, Any], segments: int) -> tuple[bytes, bytes]:
    """The two keys behind so many segments: slashes in them must be encoded. Either may be empty.

    Raises:
        InvalidArgumentError: if there are not two.
    """
    parts = raw_tail(scope, segments).split(b"/")
    if len(parts) != 2:
        raise InvalidArgumentError("a range needs two keys: /range/{from}/{to}, with slashes in keys written as %2F")
    return unquote_to_bytes(parts[0]), unquote_to_bytes(parts[1])
