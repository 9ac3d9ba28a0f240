"""What queries may hold: the reading half of each store kind, as contracts and as views that can do nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from state.stores.store_iterator import StoreIterator

K = TypeVar("K")
V = TypeVar("V")


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


class ReadOnlyKeyValueStore(Protocol[K, V]):
    """Reads of a key-value store. Order is by serialized bytes. All raise `StoreClosedError` after close."""

    def get(self, key: K) -> V | None:
        """The value, or None if there is none.

        Raises:
            NullKeyError: the key is None.
        """
        ...

    def get_many(self, keys: Sequence[K]) -> list[V | None]:
        """The values at `keys`, in their order."""
        ...

    def range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[K, V]]:
        """Rows from `key_from` to `key_to`, both included; None leaves an end open. Nothing if they are swapped."""
        ...

    def reverse_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[K, V]]:
        """As `range`, from `key_to` down."""
        ...

    def prefix_scan(self, prefix: K) -> StoreIterator[tuple[K, V]]:
        """Rows whose serialized key begins with the serialized `prefix`."""
        ...

    def all(self) -> StoreIterator[tuple[K, V]]:
        """Every row, in the order of the serialized keys."""
        ...

    def reverse_all(self) -> StoreIterator[tuple[K, V]]:
        """Every row, backwards."""
        ...

    def approximate_num_entries(self) -> int:
        """About how many rows there are."""
        ...


class ReadOnlyWindowStore(Protocol[K, V]):
    """Reads of a window store. Times are window starts, both ends included; expired windows are never seen."""

    def fetch_one(self, key: K, start_ms: int) -> V | None:
        """The value of the window that starts at `start_ms`, or None; of duplicates the last."""
        ...

    def fetch(self, key: K, from_ms: int, to_ms: int) -> StoreIterator[tuple[int, V]]:
        """(start, value) of a key's windows that start from `from_ms` to `to_ms`, both included, oldest first."""
        ...

    def backward_fetch(self, key: K, from_ms: int, to_ms: int) -> StoreIterator[tuple[int, V]]:
        """As `fetch`, newest first."""
        ...

    def fetch_range(
        self, key_from: K | None, key_to: K | None, from_ms: int, to_ms: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """Windows of the keys from `key_from` to `key_to`, both included; by key, then start."""
        ...

    def backward_fetch_range(
        self, key_from: K | None, key_to: K | None, from_ms: int, to_ms: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `fetch_range`, backwards."""
        ...

    def fetch_all(self, from_ms: int, to_ms: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """Windows of all keys that start from `from_ms` to `to_ms`, both included; by key, then start."""
        ...

    def backward_fetch_all(self, from_ms: int, to_ms: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `fetch_all`, backwards."""
        ...

    def all(self) -> StoreIterator[tuple[Windowed[K], V]]:
        """Every live window; by key, then start."""
        ...

    def backward_all(self) -> StoreIterator[tuple[Windowed[K], V]]:
        """Every live window, backwards."""
        ...


class ReadOnlySessionStore(Protocol[K, V]):
    """Reads of a session store; by key, then end, then start. Expired sessions are never seen."""

    def fetch_session(self, key: K, start_ms: int, end_ms: int) -> V | None:
        """The value of exactly that session, or None."""
        ...

    def find_sessions(self, key: K, earliest_end_ms: int, latest_start_ms: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """A key's sessions with `end >= earliest_end_ms` and `start <= latest_start_ms`."""
        ...

    def backward_find_sessions(
        self, key: K, earliest_end_ms: int, latest_start_ms: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `find_sessions`, backwards."""
        ...

    def find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_end_ms: int, latest_start_ms: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `find_sessions`, of the keys from `key_from` to `key_to`, both included; None leaves an end open."""
        ...

    def backward_find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_end_ms: int, latest_start_ms: int
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `find_sessions_range`, backwards."""
        ...

    def find_sessions_ended(self, from_ms: int, to_ms: int) -> StoreIterator[tuple[Windowed[K], V]]:
        """Sessions of all keys that ended from `from_ms` to `to_ms`, both included."""
        ...

    def fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], V]]:
        """All live sessions of a key; by end, then start."""
        ...

    def backward_fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], V]]:
        """All live sessions of a key, backwards."""
        ...

    def fetch_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[Windowed[K], V]]:
        """All live sessions of the keys from `key_from` to `key_to`, both included; None leaves an end open."""
        ...

    def backward_fetch_range(self, key_from: K | None, key_to: K | None) -> StoreIterator[tuple[Windowed[K], V]]:
        """As `fetch_range`, backwards."""
        ...


class _View:
    """Lets through the attributes of one contract and nothing else."""

    __slots__ = ("_allowed", "_store")

    def __init__(self, store: object, allowed: frozenset[str]) -> None:
        self._store = store
        self._allowed = allowed

    def __getattr__(self, name: str) -> Any:
        if name not in self._allowed:
            msg = f"a read-only view has no {name!r}"
            raise AttributeError(msg)
        return getattr(self._store, name)


def _reads_of(contract: type) -> frozenset[str]:
    return frozenset(name for name in vars(contract) if not name.startswith("_")) | {"name"}


_KEY_VALUE = _reads_of(ReadOnlyKeyValueStore)
_WINDOW = _reads_of(ReadOnlyWindowStore)
_SESSION = _reads_of(ReadOnlySessionStore)


def read_only_key_value(store: ReadOnlyKeyValueStore[K, V]) -> ReadOnlyKeyValueStore[K, V]:
    """A view of `store` without its writes."""
    return cast("ReadOnlyKeyValueStore[K, V]", _View(store, _KEY_VALUE))


def read_only_window(store: ReadOnlyWindowStore[K, V]) -> ReadOnlyWindowStore[K, V]:
    """A view of `store` without its writes."""
    return cast("ReadOnlyWindowStore[K, V]", _View(store, _WINDOW))


def read_only_session(store: ReadOnlySessionStore[K, V]) -> ReadOnlySessionStore[K, V]:
    """A view of `store` without its writes."""
    return cast("ReadOnlySessionStore[K, V]", _View(store, _SESSION))
