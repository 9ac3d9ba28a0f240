"""A key in a time window or session."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")


class Windowed(NamedTuple, Generic[K]):
    """A key in a time window or session.

    Attributes:
        key: the key.
        start_ms: first millisecond that belongs to it.
        end_ms: of a window the first millisecond behind it, of a session the last one in it.
    """

    key: K
    start_ms: int
    end_ms: int
