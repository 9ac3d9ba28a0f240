"""The options of a store in a topology: Kafka Streams' `Materialized`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

from storekeeper.errors import ConfigurationError
from storekeeper.names import checked_name
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import serde_of
from storekeeper.stores.profile import Profile

V = TypeVar("V")
E = TypeVar("E", bound=StrEnum)


class StoreKind(StrEnum):
    """How a store arranges its rows."""

    KEY_VALUE = "key_value"
    WINDOW = "window"
    SESSION = "session"
    VERSIONED = "versioned"
    TTL = "ttl"


class StoreBackend(StrEnum):
    """What holds the rows of a task's store."""

    ROCKSDB = "rocksdb"
    MEMORY = "memory"
    REDIS = "redis"


@dataclass(frozen=True)
class Store(Generic[V]):
    """A store's name, the type of its values, and how it is kept.

    Attributes:
        name: names the store and its changelog. None: the name follows from the operator's place.
        values: a type, or a serde.
        keys: a type, or a serde. None: that of the stream.
        kind: how rows are arranged, for stores of `add_store`. Operators choose it themselves.
        backend: what holds the rows: rocksdb, memory or redis. All are replicas of the changelog.
        max_rows: how many rows are kept, in memory: of more, those not used for longest go with the batch. Kafka
            Streams' `lruMap`.
        profile: what RocksDB is used for most: write_heavy, read_heavy, memory_constrained or balanced.
        caching: whether only the last update of a key in a batch goes on downstream.
        retention: how long windows and sessions are kept, at least as long as they are open.
        history: how long a versioned table keeps its earlier values. Given, the table is versioned.
        ttl: how long rows of a store of kind TTL live, in stream time.
        logging: whether changes go to a changelog. Without one the rows are lost with the machine.
        changelog: the changelog's topic. None: its name follows from those of app and store.
        ranked_by: the field of the rows' JSON by which query nodes rank them. Rows by key only.
        everywhere: whether every query node holds all partitions.
        bounded: whether the app itself bounds the number of rows.

    Raises:
        InvalidNameError: the name or the changelog can't name a store or a topic.
        ConfigurationError: a time is negative, or options don't go together.
    """

    name: str | None = None
    values: type[V] | Serde[V] | None = None
    keys: Any = None
    kind: StoreKind = StoreKind.KEY_VALUE
    backend: str = StoreBackend.ROCKSDB
    max_rows: int | None = None
    profile: str = "balanced"
    caching: bool = False
    retention: timedelta | None = None
    history: timedelta | None = None
    ttl: timedelta | None = None
    logging: bool = True
    changelog: str | None = None
    ranked_by: str | None = None
    everywhere: bool = False
    bounded: bool = False
    key_serde: Serde[Any] | None = field(init=False, default=None)
    value_serde: Serde[V] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        for name in (self.name, self.changelog):
            if name is not None:
                checked_name(name)
        object.__setattr__(self, "kind", _one_of(StoreKind, self.kind, f"store {self.name}: kind"))
        object.__setattr__(self, "backend", _one_of(StoreBackend, self.backend, f"store {self.name}: backend"))
        self._check_backend()
        _one_of(Profile, self.profile, f"store {self.name}: profile")
        for name in ("retention", "history", "ttl"):
            if milliseconds(getattr(self, name), f"store {self.name}: {name}") < 0:
                raise ConfigurationError(f"store {self.name}: {name} can't be negative")
        if self.keys is not None:
            object.__setattr__(self, "key_serde", serde_of(self.keys))
        if self.values is not None:
            object.__setattr__(self, "value_serde", serde_of(self.values))

    def _check_backend(self) -> None:
        """Refuses options that another backend has, and rows that only a process or a server of others would have."""
        if self.backend != StoreBackend.ROCKSDB:
            if self.profile != "balanced":
                msg = f"store {self.name}: profile= is for RocksDB: leave it out with backend={self.backend!r}"
                raise ConfigurationError(msg)
            if not self.logging:
                msg = f"store {self.name}: backend={self.backend!r} needs the changelog: leave logging=False out"
                raise ConfigurationError(msg)
        if self.max_rows is None:
            return
        if self.backend != StoreBackend.MEMORY:
            raise ConfigurationError(f"store {self.name}: max_rows= bounds rows in memory: add backend='memory'")
        if self.max_rows < 1:
            raise ConfigurationError(f"store {self.name}: max_rows can't be {self.max_rows}: use at least 1")


def options_of(store: object) -> Store[Any] | None:
    """The options of a store that is given by its name, or with them.

    Raises:
        ConfigurationError: it is neither.
    """
    if store is None or isinstance(store, Store):
        return store
    if not isinstance(store, str):
        raise ConfigurationError(f"store= takes a name or a Store(...), not {store!r:.60}")
    return Store(store)


def name_of(store: str | Store[Any]) -> str:
    """The name of a store of `add_store`, which is given by it or by the store itself.

    Raises:
        ConfigurationError: it is neither, or has no name.
    """
    name = store.name if isinstance(store, Store) else store
    if not isinstance(name, str):
        msg = f"a processor's store is given by its name or as the Store(...) of add_store, not {store!r:.60}"
        raise ConfigurationError(msg)
    return name


def _one_of(choices: type[E], choice: str, what: str) -> E:
    try:
        return choices(choice)
    except ValueError as error:
        raise ConfigurationError(f"{what} can't be {choice!r:.60}: use one of {', '.join(choices)}") from error


def milliseconds(time: object, what: str) -> int:
    """A time in whole milliseconds; 0 for None.

    Raises:
        ConfigurationError: it is a number: of seconds, or of milliseconds?
    """
    if time is None:
        return 0
    if not isinstance(time, timedelta):
        raise ConfigurationError(f"{what} can't be {time!r:.60}: pass a timedelta, such as timedelta(seconds=30)")
    return time // timedelta(milliseconds=1)
