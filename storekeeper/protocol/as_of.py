"""The time that a look-up in a versioned store is about, as callers write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from storekeeper.errors import InvalidArgumentError
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS

AS_OF = "as_of"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_as_of(text: str) -> int:
    """Epoch milliseconds, or a time in ISO 8601; without a zone it is UTC.

    Raises:
        InvalidArgumentError: it is neither, or before 1970.
    """
    if text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= MAX_TIMESTAMP_MS:
        return int(text)
    try:
        at = datetime.fromisoformat(text)
        found = (at.replace(tzinfo=at.tzinfo or UTC) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        found = -1
    if found < 0 or text.isdigit():
        msg = f"{AS_OF} is epoch milliseconds or a time like 2026-01-31T18:00:00Z, with + as %2B, not {text[:40]!r}"
        raise InvalidArgumentError(msg)
    return found
