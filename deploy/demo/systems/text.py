"""Times and numbers as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def at_time(time_ms: int) -> str:
    """A time to the minute, in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def in_words(count: int, noun: str) -> str:
    """`1 session`, `2 sessions`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
