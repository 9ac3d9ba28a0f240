"""Windows and times as topologies write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Generic, TypeVar

from state.serdes.serde import Serde
from state.stores.windowed import Windowed
from state.tables.windows import SessionWindows, SlidingWindows, TimeWindows
from state.topology.store import milliseconds

K = TypeVar("K")
NONE = timedelta()


def tumbling(size: timedelta, *, grace: timedelta = NONE) -> TimeWindows:
    """Windows side by side: each record falls into one."""
    return TimeWindows.tumbling(milliseconds(size), grace_ms=milliseconds(grace))


def hopping(size: timedelta, *, advance: timedelta, grace: timedelta = NONE) -> TimeWindows:
    """Windows that overlap: a new one every `advance`."""
    return TimeWindows.hopping(milliseconds(size), advance_ms=milliseconds(advance), grace_ms=milliseconds(grace))


def sliding(difference: timedelta, *, grace: timedelta = NONE) -> SlidingWindows:
    """Windows of records at most `difference` apart."""
    return SlidingWindows(milliseconds(difference), milliseconds(grace))


def sessions(gap: timedelta, *, grace: timedelta = NONE) -> SessionWindows:
    """Sessions of activity, ended by more than `gap` without a record."""
    return SessionWindows(milliseconds(gap), milliseconds(grace))


class WindowedSerde(Generic[K]):
    """A key with its window: the key's bytes, then start and end in epoch ms, 8 bytes big-endian each."""

    def __init__(self, keys: Serde[K]) -> None:
        self._keys = keys

    def serialize(self, value: Windowed[K]) -> bytes:
        """The key's bytes and the window's times."""
        key, start_ms, end_ms = value
        return self._keys.serialize(key) + start_ms.to_bytes(8, "big") + end_ms.to_bytes(8, "big")

    def deserialize(self, data: bytes) -> Windowed[K]:
        """The key in its window."""
        start_ms, end_ms = int.from_bytes(data[-16:-8], "big"), int.from_bytes(data[-8:], "big")
        return Windowed(self._keys.deserialize(data[:-16]), start_ms, end_ms)
