"""Masks keys for display: enough to tell two rows apart beside their offsets, too little to identify a customer."""

from __future__ import annotations

_SHOWN = 2
_SHOWN_PARTS = 3


def masked_key(key: bytes) -> str:
    """The key's length and its last two characters, such as `••••••89 (8 bytes)`; of short keys only the length."""
    text = key.decode("utf-8", "replace")
    tail = text[-_SHOWN:] if len(text) >= 4 * _SHOWN and text[-_SHOWN:].isalnum() else ""
    return f"{'•' * (min(len(text), 12) - len(tail))}{tail} ({len(key)} bytes)"


def masked_path(path: str) -> str:
    """A request's path without the keys in it: its first three parts, such as `/state/keyvalue/rewards/…`."""
    parts = path.split("/")
    return path if len(parts) <= _SHOWN_PARTS + 1 else "/".join([*parts[: _SHOWN_PARTS + 1], "…"])
