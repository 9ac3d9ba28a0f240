"""Where a topology begins: its source topics, tables and stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import UnionType
from typing import Any, TypeVar, overload

from storekeeper.errors import ConfigurationError
from storekeeper.serdes.struct import serde_of
from storekeeper.topology.failures import OnError
from storekeeper.topology.function_checks import check_function, check_kind
from storekeeper.topology.functions import Check, TimestampExtractor, Type, without_none
from storekeeper.topology.kstream import KStream
from storekeeper.topology.ktable import GlobalTable, KTable
from storekeeper.topology.node import Graph
from storekeeper.topology.operators.source import GlobalSource, Source, TableSource
from storekeeper.topology.plan import Topology
from storekeeper.topology.serde_checks import Serdes
from storekeeper.topology.store import Store, StoreKind, milliseconds, options_of
from storekeeper.topology.topic_checks import changelogs_of, check_topics
from storekeeper.topology.topology_store import TopologyStore, check_options

K = TypeVar("K")
V = TypeVar("V")


class StreamsBuilder:
    """Describes one app's topology.

    Args:
        app: the app's name. It is in front of the names of internal topics.
    """

    def __init__(self, app: str) -> None:
        self._graph = Graph(app, KStream)
        self._sources: dict[str, tuple[Source, Any, Any]] = {}
        self._stores: dict[str, TopologyStore] = {}

    @overload
    def stream(
        self, topic: str, values: Type[V], *, check: Check[str, V] | None = None,
        timestamps: TimestampExtractor[str, V] | None = None, named: str | None = None,
    ) -> KStream[str, V]: ...  # fmt: skip

    @overload
    def stream(
        self, topic: str, values: Type[V], *, keys: Type[K], check: Check[K, V] | None = None,
        timestamps: TimestampExtractor[K, V] | None = None, named: str | None = None,
    ) -> KStream[K, V]: ...  # fmt: skip

    @overload
    def stream(
        self, topic: str, values: UnionType, *, keys: Any = str, check: Check[Any, Any] | None = None,
        timestamps: TimestampExtractor[Any, Any] | None = None, named: str | None = None,
    ) -> KStream[Any, Any]: ...  # fmt: skip

    def stream(
        self, topic: str, values: Any, *, keys: Any = str, check: Any = None, timestamps: Any = None,
        named: str | None = None,
    ) -> KStream[Any, Any]:  # fmt: skip
        """The records of a topic. One that does not decode becomes a dead letter.

        Args:
            topic: the topic.
            values: the type of the values, or a serde. With `V | None` functions get None for a null value; with `V` a
                record with a null value that would reach one becomes a dead letter.
            keys: the type of the keys, or a serde; text if it is not given.
            check: `check(key, value, timestamp_ms)` gets each record as it was decoded, with its own timestamp. If it
                raises an error, the record becomes a dead letter.
            timestamps: `timestamps(key, value)` is the event's time, which takes the place of the record's own: whole
                epoch milliseconds, or a datetime with a time zone. A record for which it gives something else, or a
                time before 1970 or after the year 9999, becomes a dead letter. One without a value keeps its own.
            named: the operator's name; the topic's if None.

        Raises:
            ConfigurationError: the topic is read already, with other types, another check or other timestamps.
        """
        if check is not None:
            check_function(f"topic {topic}", "check(key, value, timestamp_ms)", check)
        if timestamps is not None:
            check_function(f"topic {topic}", "timestamps(key, value)", timestamps)
        plain, nullable = without_none(values)
        source = self._source(topic, keys, plain, named, check=check, timestamps=timestamps)
        # What a serde makes of a null value is up to it.
        nullable = nullable or (hasattr(plain, "deserialize") and not isinstance(plain, type))
        return KStream(source, Serdes(source.key_serde, source.value_serde), nullable=nullable)

    @overload
    def table(
        self, topic: str, values: Type[V], *, store: str | Store[V] | None = None, named: str | None = None
    ) -> KTable[str, V]: ...

    @overload
    def table(
        self, topic: str, values: Type[V], *, keys: Type[K],
        store: str | Store[V] | None = None, named: str | None = None,
    ) -> KTable[K, V]: ...  # fmt: skip

    def table(
        self, topic: str, values: Any, *, keys: Any = str, store: Any = None, named: str | None = None
    ) -> KTable[Any, Any]:
        """The newest value of each key of a topic. It gets a store if `store` is given, or if an operator needs one."""
        source = self._source(topic, keys, without_none(values)[0], None)
        serdes = (source.key_serde, source.value_serde)
        return KTable(TableSource(source, serdes, options_of(store), named=named), Serdes(*serdes))

    @overload
    def global_table(
        self, topic: str, values: Type[V], *, store: str | Store[V] | None = None
    ) -> GlobalTable[str, V]: ...

    @overload
    def global_table(
        self, topic: str, values: Type[V], *, keys: Type[K], store: str | Store[V] | None = None
    ) -> GlobalTable[K, V]: ...

    def global_table(self, topic: str, values: Any, *, keys: Any = str, store: Any = None) -> GlobalTable[Any, Any]:
        """A table that every task has whole: look-ups need no common partitions.

        Raises:
            ConfigurationError: the topic is read already.
        """
        if topic in self._sources:
            msg = f"topic {topic!r} is read already: a global table's topic can't be read a second time"
            raise ConfigurationError(msg)
        source = GlobalSource(self._graph, topic, serde_of(keys), serde_of(values), options_of(store))
        self._sources[topic] = (source, keys, values)
        return GlobalTable(source)

    @contextmanager
    def on_error(self, policy: OnError | str) -> Iterator[None]:
        """Sets what becomes of a record that an operator can't process, for the operators that a block declares.

            with streams.on_error("fail"):
                charged = orders.map_values(charge)

        Args:
            policy: "dead_letter" leaves the record out; "fail" fails the batch. Outside of such a block the app's own
                policy holds: see `topology_app`.
        """
        before, self._graph.on_error = self._graph.on_error, OnError(policy)
        try:
            yield
        finally:
            self._graph.on_error = before

    def add_store(self, store: Store[Any]) -> None:
        """Declares a store for processors that name it in `process(stores=...)`.

        Raises:
            ConfigurationError: it has no name or no types, another store has its name, or its options are those of
                another kind.
        """
        check_kind("add_store", store, Store, "a Store(...)")
        if store.name is None or store.value_serde is None:
            raise ConfigurationError("a store for processors needs a name and the type of its values")
        if store.name in self._stores:
            raise ConfigurationError(f"two stores are called {store.name!r}: give one another name")
        times = {StoreKind.VERSIONED: store.history, StoreKind.TTL: store.ttl}
        retention_ms = milliseconds(times.get(store.kind, store.retention), "retention")
        if store.kind in {StoreKind.WINDOW, StoreKind.SESSION} and retention_ms < 1:
            raise ConfigurationError(f"store {store.name!r} keeps windows: give it a retention")
        if store.kind is StoreKind.TTL and retention_ms < 1:
            msg = f"store {store.name!r} has rows with a TTL: give it a ttl of at least a millisecond"
            raise ConfigurationError(msg)
        spec = TopologyStore(
            store.name, store.kind, store.key_serde or serde_of(str), store.value_serde, store, retention_ms, 1
        )
        check_options(spec)
        self._stores[store.name] = spec

    def build(self) -> Topology:
        """The finished topology.

        Raises:
            ConfigurationError: a processor names a store that is not declared, two operators name one store, or
                topics meet (`check_topics`).
        """
        topology = Topology(self._graph, self._stores)
        check_topics(topology, changelogs_of(topology))
        return topology

    def _source(
        self, topic: str, keys: Any, values: Any, named: str | None, *, check: Any = None, timestamps: Any = None
    ) -> Source:
        known = self._sources.get(topic)
        if known is None:
            source = Source(
                self._graph, topic, serde_of(keys), serde_of(values), check=check, timestamps=timestamps, named=named
            )
            self._sources[topic] = (source, keys, values)
            return source
        source = known[0]
        same = (*known[1:], source.check, source.timestamps) == (keys, values, check, timestamps)
        if not same or isinstance(source, GlobalSource):
            raise ConfigurationError(
                f"topic {topic!r} is read already, with other types, another check or other timestamps: "
                "read it once and use the stream twice"
            )
        return source
