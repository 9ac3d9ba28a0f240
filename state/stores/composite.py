"""Scatter and gather: the read-only stores of several partitions as one.

A key lives in one partition; the first store that knows it answers. Ranges are merged in the order of the serialized
keys. The stores are looked up anew for each call, so that a call during a rebalance fails instead of missing rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from state.errors import IteratorClosedError, NullKeyError
from state.serdes.serde import Serde
from state.stores.read_only import ReadOnlyKeyValueStore, ReadOnlySessionStore, ReadOnlyWindowStore, Windowed
from state.stores.store_iterator import StoreIterator

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
S = TypeVar("S")

Provider = Callable[[], Sequence[S]]
"""The partitions' stores at this moment; raises `StoreUnavailableError` while there are not all of them."""

MAX_COUNT = (1 << 63) - 1
"""What a count that overflows 64 bits is given as."""


class _Scans:
    """The scans of several stores, closed as one: the `rows` of a `StoreIterator`."""

    def __init__(self, scans: Sequence[StoreIterator[Any]]) -> None:
        self._scans = scans
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed or any(scan.closed for scan in self._scans)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        raise IteratorClosedError("a gathered scan is read through its merged rows")

    def close(self) -> None:
        self._closed = True
        for scan in self._scans:
            scan.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _gathered(
    scans: Sequence[StoreIterator[T]], order: Callable[[T], Any], *, reverse: bool = False
) -> StoreIterator[T]:
    return StoreIterator(heapq.merge(*scans, key=order, reverse=reverse), _Scans(scans))


def _first(scans: Iterator[StoreIterator[T]]) -> StoreIterator[T]:
    """The first scan that has a row, or the last one."""
    found: StoreIterator[T] | None = None
    for scan in scans:
        if found is not None:
            found.close()
        found = scan
        if scan.has_next():
            break
    if found is None:
        return StoreIterator(iter(()), _Scans(()))
    return found


def _check_key(key: object) -> None:
    if key is None:
        raise NullKeyError("a key can't be None")


class CompositeReadOnlyKeyValueStore(Generic[K, V]):
    """Key-value stores of several partitions as one. As thread-safe as they are."""

    def __init__(self, provider: Provider[ReadOnlyKeyValueStore[K, V]], key_serde: Serde[K]) -> None:
        self._stores = provider
        self._encode_key = key_serde.serialize

    def get(self, key: K) -> V | None:
        """The value from whichever partition has it, or None."""
        _check_key(key)
        for store in self._stores():
            value = store.get(key)
            if value is not None:
                return value
        return None

    def get_many(self, keys: Sequence[K]) -> list[V | None]:
        """The values at `keys`, in their order. Each store is asked once."""
        values: list[V | None] = [None] * len(keys)
        for store in self._stores():
            for index, value in enumerate(store.get_many(keys)):
                if values[index] is None:
                    values[index] = value
        return values

    def range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[K, V]]:
        """Rows of all partitions from `key_from` to `key_to`, both included; None leaves an end open."""
        return self._gather([store.range(key_from, key_to) for store in self._stores()])

    def reverse_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[K, V]]:
        """As `range`, backwards."""
        return self._gather([store.reverse_range(key_from, key_to) for store in self._stores()], reverse=True)

    def prefix_scan(self, prefix: K) -> StoreIterator[tuple[K, V]]:
        """Rows of all partitions whose serialized key begins with the serialized prefix."""
        _check_key(prefix)
        return self._gather([store.prefix_scan(prefix) for store in self._stores()])

    def all(self) -> StoreIterator[tuple[K, V]]:
        """Every row of every partition, in the order of the serialized keys."""
        return self._gather([store.all() for store in self._stores()])

    def reverse_all(self) -> StoreIterator[tuple[K, V]]:
        """Every row of every partition, backwards."""
        return self._gather([store.reverse_all() for store in self._stores()], reverse=True)

    def approximate_num_entries(self) -> int:
        """The sum over all partitions, at most 2^63 - 1."""
        return min(sum(store.approximate_num_entries() for store in self._stores()), MAX_COUNT)

    def _gather(
        self, scans: Sequence[StoreIterator[tuple[K, V]]], *, reverse: bool = False
    ) -> StoreIterator[tuple[K, V]]:
        return _gathered(scans, lambda row: self._encode_key(row[0]), reverse=reverse)


class CompositeReadOnlyWindowStore(Generic[K, V]):
    """Window stores of several partitions as one: by key, then start. As thread-safe as they are."""

    def __init__(self, provider: Provider[ReadOnlyWindowStore[K, V]], key_serde: Serde[K]) -> None:
        self._stores = provider
        self._encode_key = key_serde.serialize

    def fetch_one(self, key: K, start_ms: int) -> V | None:
        """The value of one window, from whichever partition has it, or None."""
        _check_key(key)
        values = (store.fetch_one(key, start_ms) for store in self._stores())
        return next((value for value in values if value is not None), None)

    def fetch(self, key: K, from_ms: int, to_ms: int) -> StoreIterator[tuple[int, V]]:
        """(start, value) of a key's windows, oldest first, from the partition that has the key."""
        _check_key(key)
        return _first(store.fetch(key, from_ms, to_ms) for store in self._stores())

    def backward_fetch(self, key: K, from_ms: int, to_ms: int) -> StoreIterator[tuple[int, V]]:
        """As `fetch`, newest first."""
        _check_key(key)
        return _first(store.backward_fetch(key, from_ms, to_ms) for store in self._stores())

    def fetch_range(
        self, key_from: K | None, key_to: K | None, from_ms: int, to_ms: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """Windows of the keys from `key_from` to `key_to`, both included, that start from `from_ms` to `to_ms`."""
        return self._gather([store.fetch_range(key_from, key_to, from_ms, to_ms) for store in self._stores()])

    def backward_fetch_range(
        self, key_from: K | None, key_to: K | None, from_ms: int, to_ms: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `fetch_range`, backwards."""
        scans = [store.backward_fetch_range(key_from, key_to, from_ms, to_ms) for store in self._stores()]
        return self._gather(scans, reverse=True)

    def fetch_all(self, from_ms: int, to_ms: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """Windows of all keys that start from `from_ms` to `to_ms`, both included."""
        return self._gather([store.fetch_all(from_ms, to_ms) for store in self._stores()])

    def backward_fetch_all(self, from_ms: int, to_ms: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `fetch_all`, backwards."""
        return self._gather([store.backward_fetch_all(from_ms, to_ms) for store in self._stores()], reverse=True)

    def all(self) -> StoreIterator[tuple[Windowed[K], V]]:
        """Every live window."""
        return self._gather([store.all() for store in self._stores()])

    def backward_all(self) -> StoreIterator[tuple[Windowed[K], V]]:
        """Every live window, backwards."""
        return self._gather([store.backward_all() for store in self._stores()], reverse=True)

    def _gather(
        self, scans: Sequence[StoreIterator[tuple[Windowed[K], V]]], *, reverse: bool = False
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        return _gathered(scans, lambda row: (self._encode_key(row[0].key), row[0].start_ms), reverse=reverse)


class CompositeReadOnlySessionStore(Generic[K, V]):
    """Session stores of several partitions as one: by key, then end, then start. As thread-safe as they are."""

    def __init__(self, provider: Provider[ReadOnlySessionStore[K, V]], key_serde: Serde[K]) -> None:
        self._stores = provider
        self._encode_key = key_serde.serialize

    def fetch_session(self, key: K, start_ms: int, end_ms: int) -> V | None:
        """The value of one session, from whichever partition has it, or None."""
        _check_key(key)
        values = (store.fetch_session(key, start_ms, end_ms) for store in self._stores())
        return next((value for value in values if value is not None), None)

    def find_sessions(self, key: K, earliest_end_ms: int, latest_start_ms: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """A key's sessions that overlap the times given, from the partition that has the key."""
        _check_key(key)
        return _first(store.find_sessions(key, earliest_end_ms, latest_start_ms) for store in self._stores())

    def backward_find_sessions(
        self, key: K, earliest_end_ms: int, latest_start_ms: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `find_sessions`, backwards."""
        _check_key(key)
        return _first(store.backward_find_sessions(key, earliest_end_ms, latest_start_ms) for store in self._stores())

    def find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_end_ms: int, latest_start_ms: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `find_sessions`, of the keys from `key_from` to `key_to`, both included."""
        stores = self._stores()
        return self._gather(
            [store.find_sessions_range(key_from, key_to, earliest_end_ms, latest_start_ms) for store in stores]
        )

    def backward_find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_end_ms: int, latest_start_ms: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `find_sessions_range`, backwards."""
        stores = self._stores()
        return self._gather(
            [
                store.backward_find_sessions_range(key_from, key_to, earliest_end_ms, latest_start_ms)
                for store in stores
            ],
            reverse=True,
        )

    def find_sessions_ended(self, from_ms: int, to_ms: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """Sessions of all keys that ended from `from_ms` to `to_ms`, both included."""
        return self._gather([store.find_sessions_ended(from_ms, to_ms) for store in self._stores()])

    def fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], V]]:
        """All sessions of a key."""
        _check_key(key)
        return _first(store.fetch(key) for store in self._stores())

    def backward_fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], V]]:
        """All sessions of a key, backwards."""
        _check_key(key)
        return _first(store.backward_fetch(key) for store in self._stores())

    def fetch_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[Windowed[K], V]]:
        """All sessions of the keys from `key_from` to `key_to`, both included."""
        return self._gather([store.fetch_range(key_from, key_to) for store in self._stores()])

    def backward_fetch_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `fetch_range`, backwards."""
        return self._gather([store.backward_fetch_range(key_from, key_to) for store in self._stores()], reverse=True)

    def _gather(
        self, scans: Sequence[StoreIterator[tuple[Windowed[K], V]]], *, reverse: bool = False
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        def order(row: tuple[Windowed[K], V]) -> tuple[bytes, int, int]:
            session = row[0]
            return self._encode_key(session.key), session.end_ms, session.start_ms

        return _gathered(scans, order, reverse=reverse)
