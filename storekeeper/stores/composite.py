"""Scatter and gather: the stores of several partitions read as one.

A key lives in one partition; the first store that has it answers. Ranges are merged in the order of the serialized
keys. The stores are looked up again for each call, so that a call during a rebalance fails instead of missing rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from storekeeper.serdes.serde import Serde
from storekeeper.stores.session import SessionStore
from storekeeper.stores.store_iterator import StoreIterator
from storekeeper.stores.window import WindowStore

S = TypeVar("S")

MAX_COUNT = (1 << 63) - 1
"""The value returned for a count that overflows 64 bits."""
_VALUES = {"get", "fetch_one", "fetch_session"}
_SCANS_OF_A_KEY = {"fetch", "backward_fetch", "find_sessions", "backward_find_sessions"}
_BACKWARD = ("reverse_", "backward_")
_SCANS = {
    *("range", "reverse_range", "prefix_scan", "all", "reverse_all", "backward_all"),
    *("fetch_range", "backward_fetch_range", "fetch_all", "backward_fetch_all"),
    *("find_sessions_range", "backward_find_sessions_range", "find_sessions_ended"),
}


def composite(stores: Callable[[], Sequence[S]], key_serde: Serde[Any]) -> S:
    """A view of the stores of several partitions as one store, which can only be read. As thread-safe as they are.

    Args:
        stores: gives the partitions' key-value, window or session stores at this moment. It raises
            `StoreUnavailableError` while one of them is missing.
        key_serde: of the stores' keys.
    """
    return cast("S", _Composite(stores, key_serde.serialize))


class _Composite:
    __slots__ = ("_encode_key", "_stores")

    def __init__(self, stores: Callable[[], Sequence[Any]], encode_key: Callable[[Any], bytes]) -> None:
        self._stores = stores
        self._encode_key = encode_key

    def __getattr__(self, name: str) -> Any:
        for names, read in ((_VALUES, self._value), (_SCANS_OF_A_KEY, self._scan_of_a_key), (_SCANS, self._scan)):
            if name in names:
                return partial(read, name)
        msg = f"a composite store has no {name!r}: it only reads"
        raise AttributeError(msg)

    def get_many(self, keys: Sequence[Any]) -> list[Any]:
        values: list[Any] = [None] * len(keys)
        for store in self._stores():
            found = store.get_many(keys)
            values = [new if old is None else old for old, new in zip(values, found, strict=True)]
        return values

    def approximate_num_entries(self) -> int:
        return min(sum(store.approximate_num_entries() for store in self._stores()), MAX_COUNT)

    def _value(self, read: str, *key: Any, **named: Any) -> Any:
        values = (getattr(store, read)(*key, **named) for store in self._stores())
        return next((value for value in values if value is not None), None)

    def _scan_of_a_key(self, read: str, *bounds: Any, **named: Any) -> StoreIterator[Any]:
        found: StoreIterator[Any] = StoreIterator(iter(()), _Scans(()))
        for store in self._stores():
            found.close()
            found = getattr(store, read)(*bounds, **named)
            if found.has_next():
                break
        return found

    def _scan(self, read: str, *bounds: Any, **named: Any) -> StoreIterator[Any]:
        stores = self._stores()
        windowed = any(isinstance(store, WindowStore | SessionStore) for store in stores)
        order = self._order_of_windowed if windowed else self._order
        scans = [getattr(store, read)(*bounds, **named) for store in stores]
        return StoreIterator(heapq.merge(*scans, key=order, reverse=read.startswith(_BACKWARD)), _Scans(scans))

    def _order(self, row: Any) -> Any:
        return self._encode_key(row[0])

    def _order_of_windowed(self, row: Any) -> Any:
        return self._encode_key(row[0].key), row[0].end_ms, row[0].start_ms


class _Scans:
    """The scans of several stores, closed as one."""

    def __init__(self, scans: Sequence[StoreIterator[Any]]) -> None:
        self._scans = scans
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed or any(scan.closed for scan in self._scans)

    def close(self) -> None:
        self._closed = True
        for scan in self._scans:
            scan.close()
