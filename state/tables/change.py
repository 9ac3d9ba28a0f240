"""What flows between tables: keys, values and the change from the old value to the new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from state.serdes.timestamped import ValueAndTimestamp
from state.stores.windowed import Windowed
from state.tables.windows import Window

K = TypeVar("K")
V = TypeVar("V")


class Change(msgspec.Struct, Generic[V], frozen=True, gc=False):
    """One row's new value and, where the table sends old values, the one before it.

    A None `new` is a tombstone: the row is gone. A None `old` means that there was no row, or that the table doesn't
    send old values.
    """

    new: V | None
    old: V | None = None


class TableRecord(msgspec.Struct, Generic[K, V], frozen=True, gc=False):
    """One change of one row, stamped with event time in epoch ms."""

    key: K
    change: Change[V]
    timestamp_ms: int


Forward = Callable[[TableRecord[K, V]], None]
"""A subscriber to a table's changes. Called in the order of the changes, on the thread that caused them."""


def windowed(key: K, window: Window) -> Windowed[K]:
    """The key of a table of windows: `key` in `window`."""
    return Windowed(key, window.start_ms, window.end_ms)


def value_of(row: ValueAndTimestamp[V] | None) -> V | None:
    """The value of a row, or None if there is no row."""
    return None if row is None else row.value
