"""What flows between tables: keys and the change of a row from its old value to the new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from storekeeper.serdes.timestamped import ValueAndTimestamp

K = TypeVar("K")
V = TypeVar("V")


class Change(msgspec.Struct, Generic[V], frozen=True, gc=False):
    """One row's new value and, where the table sends old values, the one before it.

    A None `new` is a tombstone: the row is gone. A None `old` means that there was no row, or that the table doesn't
    send old values.
    """

    new: V | None
    old: V | None = None


Forward = Callable[[K, Change[V], int], None]
"""Takes a change of a table's row: key, change, timestamp in epoch ms."""


def value_of(row: ValueAndTimestamp[V] | None) -> V | None:
    """The value of a row, or None if there is no row."""
    return None if row is None else row.value
