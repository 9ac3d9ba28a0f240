"""The store interfaces that tables and aggregations need for their rows.

The stores of `state.stores` have these methods: a key-value or window store with `TimestampedSerde` values, a session
store with plain ones. A store with a cache forwards its table's changes when it is flushed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from state.serdes.timestamped import ValueAndTimestamp
from state.stores.windowed import Windowed

K = TypeVar("K")
V = TypeVar("V")
K_contra = TypeVar("K_contra", contravariant=True)


class TableStore(Protocol[K_contra, V]):
    """A key-value store of one table's rows."""

    def get(self, key: K_contra, /) -> ValueAndTimestamp[V] | None:
        """The row at `key`, or None."""
        ...

    def put(self, key: K_contra, row: ValueAndTimestamp[V] | None, /) -> None:
        """Writes the row; None deletes it."""
        ...


class WindowRows(Protocol[K, V]):
    """A window store of one aggregation's rows, one for each key and window start."""

    def fetch_one(self, key: K, start_ms: int, /) -> ValueAndTimestamp[V] | None:
        """The row of the window that starts at `start_ms`, or None."""
        ...

    def fetch(self, key: K, from_ms: int, to_ms: int, /) -> Iterable[tuple[int, ValueAndTimestamp[V]]]:
        """The key's rows with their window starts, earliest first, both ends inclusive."""
        ...

    def fetch_all(self, from_ms: int, to_ms: int, /) -> Iterable[tuple[Windowed[K], ValueAndTimestamp[V]]]:
        """All keys' rows whose windows start from `from_ms` to `to_ms`, both ends inclusive."""
        ...

    def put(self, key: K, row: ValueAndTimestamp[V] | None, start_ms: int, /) -> None:
        """Writes the row of the window that starts at `start_ms`; None deletes it."""
        ...


class SessionRows(Protocol[K, V]):
    """A session store of one aggregation's rows, one for each key and session."""

    def fetch_session(self, key: K, start_ms: int, end_ms: int, /) -> V | None:
        """The aggregate of exactly that session, or None."""
        ...

    def find_sessions(self, key: K, earliest_end_ms: int, latest_start_ms: int, /) -> Iterable[tuple[Windowed[K], V]]:
        """The key's sessions that end at or after the one and start at or before the other, earliest first."""
        ...

    def find_sessions_ended(self, from_ms: int, to_ms: int, /) -> Iterable[tuple[Windowed[K], V]]:
        """All keys' sessions that end from `from_ms` to `to_ms`, both inclusive."""
        ...

    def put(self, key: K, start_ms: int, end_ms: int, aggregate: V | None, /) -> None:
        """Writes the session's aggregate; None removes the session."""
        ...
