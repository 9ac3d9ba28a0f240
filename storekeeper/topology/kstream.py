"""Streams as topologies describe them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Generic, TypeVar, overload

from storekeeper.errors import ConfigurationError
from storekeeper.names import checked_name
from storekeeper.serdes.struct import serde_of
from storekeeper.topology.function_checks import check_function, check_kind, check_processor
from storekeeper.topology.functions import (
    Joiner,
    Type,
    ValueMapper,
    WithKey,
    element_type,
    keyed,
    returned_pair,
    returned_type,
)
from storekeeper.topology.grouped import KGroupedStream
from storekeeper.topology.join_windows import JoinWindows
from storekeeper.topology.ktable import GlobalTable, KTable
from storekeeper.topology.node import GraphNode, operator_name
from storekeeper.topology.operators import stateless
from storekeeper.topology.operators.process import Process, Processor
from storekeeper.topology.operators.repartition import RepartitionSink
from storekeeper.topology.operators.source import TableSource, refuse_nulls
from storekeeper.topology.operators.stateless import Branch, Kind, Merge, Sink, Split, Stateless
from storekeeper.topology.operators.stream_join import StreamJoin
from storekeeper.topology.operators.stream_table_join import GlobalJoin, StreamTableJoin
from storekeeper.topology.serde_checks import Serdes, check_keys, check_type, keys_of, made_by, of_type, wider
from storekeeper.topology.store import Store, milliseconds, name_of, options_of

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
W = TypeVar("W")
R = TypeVar("R")

_PREDICATE = "predicate(key, value)"
_PAIR_MAPPER = "mapper(key, value)"


class KStream(Generic[K, V]):
    """A stream of records: key, value, timestamp. Every method adds an operator and returns what it gives.

    `named` gives an operator a name; else it follows from its place. `keys` and `values` are types or serdes: they are
    needed where a function's return type is not annotated and the records go to a topic or a store.
    """

    def __init__(self, node: GraphNode, serdes: Serdes, *, rekeyed: bool = False, nullable: bool = True) -> None:
        self.node = node
        self.serdes = serdes
        self.rekeyed = rekeyed
        self.nullable = nullable

    def filter(self, predicate: Callable[[K, V], bool], *, named: str | None = None) -> KStream[K, V]:
        """The records for which `predicate(key, value)` holds."""
        self._check("filter", _PREDICATE, predicate, named)
        return self._same(stateless.FILTER, predicate, named)

    def filter_not(self, predicate: Callable[[K, V], bool], *, named: str | None = None) -> KStream[K, V]:
        """The records for which `predicate(key, value)` does not hold."""
        self._check("filter-not", _PREDICATE, predicate, named)
        return self._same(stateless.FILTER_NOT, predicate, named)

    def peek(self, action: Callable[[K, V], object], *, named: str | None = None) -> KStream[K, V]:
        """The same records; calls `action(key, value)` for each, and again for a batch that is run again."""
        self._check("peek", "action(key, value)", action, named)
        return self._same(stateless.PEEK, action, named)

    def map(
        self, mapper: Callable[[K, V], tuple[K2, V2]], *, keys: Type[K2] | None = None,
        values: Type[V2] | None = None, named: str | None = None,
    ) -> KStream[K2, V2]:  # fmt: skip
        """A new key and value for each record: `mapper(key, value)`."""
        self._check("map", _PAIR_MAPPER, mapper, named)
        node = Stateless(self.node, stateless.MAP, mapper, named=named)
        return _rekeyed(node, returned_pair(mapper), keys, values)

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[K2, V2]]], *, keys: Type[K2] | None = None,
        values: Type[V2] | None = None, named: str | None = None,
    ) -> KStream[K2, V2]:  # fmt: skip
        """Any number of records for each: `mapper(key, value)` gives pairs of key and value."""
        self._check("flat-map", _PAIR_MAPPER, mapper, named, many=True)
        node = Stateless(self.node, stateless.FLAT_MAP, mapper, named=named)
        return _rekeyed(node, returned_pair(mapper, many=True), keys, values)

    def map_values(
        self, mapper: ValueMapper[V, R, K], *, values: Type[R] | None = None, named: str | None = None
    ) -> KStream[K, R]:
        """A new value for each record: `mapper(value)`."""
        self._check("map-values", "mapper(value)", mapper, named, key=True)
        node = Stateless(self.node, stateless.MAP_VALUES, mapper, named=named)
        return KStream(node, Serdes(self.serdes.keys, made_by(mapper, values)), rekeyed=self.rekeyed)

    def flat_map_values(
        self, mapper: Callable[[V], Iterable[R]] | WithKey[Callable[[K, V], Iterable[R]]],
        *, values: Type[R] | None = None, named: str | None = None,
    ) -> KStream[K, R]:  # fmt: skip
        """Any number of values for each record: `mapper(value)`."""
        self._check("flat-map-values", "mapper(value)", mapper, named, key=True, many=True)
        node = Stateless(self.node, stateless.FLAT_MAP_VALUES, mapper, named=named)
        serde = made_by(None, values if values is not None else element_type(mapper))
        return KStream(node, Serdes(self.serdes.keys, serde), rekeyed=self.rekeyed)

    def select_key(
        self, selector: Callable[[K, V], K2], *, keys: Type[K2] | None = None, named: str | None = None
    ) -> KStream[K2, V]:
        """A new key for each record: `selector(key, value)`. Text, unless the selector or `keys` says otherwise."""
        self._check("select-key", "selector(key, value)", selector, named)
        node = Stateless(self.node, stateless.SELECT_KEY, selector, named=named)
        serdes = Serdes(keys_of(node.name, returned_type(selector), keys), self.serdes.values)
        return KStream(node, serdes, rekeyed=True, nullable=self.nullable)

    def split(self, *, named: str | None = None) -> SplitStream[K, V]:
        """Sends each record to the first branch that takes it."""
        self._calls()
        return SplitStream(self, Split(self.node, named=named))

    def merge(self, *others: KStream[K, V], named: str | None = None) -> KStream[K, V]:
        """The records of several streams, as they arrive.

        Raises:
            ConfigurationError: their keys or their values are of different types.
        """
        streams = (self, *others)
        for other in others:
            check_kind("merge", other, KStream, "streams")
        node = Merge([stream.node for stream in streams], named=named)
        values = self.serdes.values
        for other in others:
            check_keys(node.name, self.serdes.keys, other.serdes.keys)
            values = wider(node.name, values, other.serdes.values)
        nullable, rekeyed = (any(getattr(each, name) for each in streams) for name in ("nullable", "rekeyed"))
        return KStream(node, Serdes(self.serdes.keys, values), rekeyed=rekeyed, nullable=nullable)

    def repartition(
        self, *, partitions: int | None = None, topic: str | None = None, named: str | None = None
    ) -> KStream[K, V]:
        """Brings the records of one key into one partition.

        Args:
            partitions: how many there are; None: as many as the streams that it is joined with.
            topic: the topic to use; None lets the engine use a shuffle where that is right.
            named: the operator's name.
        """
        keys, values = self.serdes.required(f"{self.node.name}.repartition")
        sink = RepartitionSink(self.node, keys, values, partitions=partitions, topic=topic, named=named)
        return KStream(sink.source, self.serdes, nullable=self.nullable)

    def to(
        self, topic: str, *, keys: Type[K] | None = None, values: Type[V] | None = None, named: str | None = None
    ) -> None:
        """Writes the records to a topic."""
        where = f"{self.node.name}.to {checked_name(topic)}"
        serdes = Serdes(made_by(None, keys) or self.serdes.keys, made_by(None, values) or self.serdes.values)
        check_type(f"{where}: the keys are", self.serdes.keys, serdes.keys)
        check_type(f"{where}: the values are", self.serdes.values, serdes.values)
        Sink(self.node, topic, *serdes.required(where), named=named)

    def to_table(self, *, store: str | Store[V] | None = None, named: str | None = None) -> KTable[K, V]:
        """The newest value of each key."""
        stream = self.by_key()
        options = options_of(store)
        node = TableSource(stream.node, stream.serdes.required(stream.node.name), options, named=named)
        return KTable(node, stream.serdes)

    def process(
        self, factory: Callable[[], Processor[K, V, K2, V2]], *, stores: Sequence[str | Store[Any]] = (),
        keys: Type[K2] | None = None, values: Type[V2] | None = None, named: str | None = None,
    ) -> KStream[K2, V2]:  # fmt: skip
        """Runs a processor of your own.

        Args:
            factory: makes the processor; called once for each task.
            stores: stores of `StreamsBuilder.add_store` that the processor uses, or their names. If it has any, records
                whose key has changed are repartitioned first.
            keys: the type of the keys that it forwards, or a serde; text if it is not given.
            values: the type of the values that it forwards, or a serde.
            named: the operator's name.
        """
        stream = self.by_key() if stores else self
        self._check_process("process", factory, stores, named)
        serdes = Serdes(made_by(None, keys) or serde_of(str), made_by(None, values))
        node = Process(stream.node, factory, stores, serdes=serdes, named=named, fixes_key=False)
        return KStream(node, serdes, rekeyed=True)

    def process_values(
        self, factory: Callable[[], Processor[K, V, K, V2]], *, stores: Sequence[str | Store[Any]] = (),
        values: Type[V2] | None = None, named: str | None = None,
    ) -> KStream[K, V2]:  # fmt: skip
        """As `process`, for a processor that keeps the key of each record: it is refused to forward another."""
        stream = self.by_key() if stores else self
        self._check_process("process-values", factory, stores, named)
        serdes = Serdes(self.serdes.keys, made_by(None, values))
        node = Process(stream.node, factory, stores, serdes=serdes, named=named, fixes_key=True)
        return KStream(node, serdes, rekeyed=stream.rekeyed)

    def group_by_key(self) -> KGroupedStream[K, V]:
        """Groups the records by their key, for an aggregation."""
        stream = self.by_key()
        return KGroupedStream(stream.node, stream.serdes)

    def group_by(
        self, selector: Callable[[K, V], K2], *, keys: Type[K2] | None = None, named: str | None = None
    ) -> KGroupedStream[K2, V]:
        """Groups the records by the key that `selector(key, value)` returns, for an aggregation.

        Text, unless the selector's annotation or `keys` says otherwise.
        """
        return self.select_key(selector, keys=keys, named=named).group_by_key()

    @overload
    def join(
        self, other: KStream[K, W], joiner: Joiner[V, W, R, K], windows: JoinWindows, *,
        store: Store[Any] | None = None, values: Type[R] | None = None, named: str | None = None,
    ) -> KStream[K, R]: ...  # fmt: skip

    @overload
    def join(
        self, other: KTable[K, W], joiner: Joiner[V, W, R, K], *, grace: timedelta | None = None,
        values: Type[R] | None = None, named: str | None = None,
    ) -> KStream[K, R]: ...  # fmt: skip

    @overload
    def join(
        self, other: GlobalTable[K2, W], joiner: Joiner[V, W, R, K], *, on: Callable[[K, V], K2 | None],
        values: Type[R] | None = None, named: str | None = None,
    ) -> KStream[K, R]: ...  # fmt: skip

    def join(self, other: Any, joiner: Any, windows: JoinWindows | None = None, **options: Any) -> KStream[K, Any]:
        """Records with their partners, `joiner(left, right)`; those without one are left out.

        Args:
            other: a stream, a table with the same keys, or a global table.
            joiner: makes the result.
            windows: for a stream: which records meet.
            options: `grace` for a versioned table: how long a record waits for rows that are late. `on` for a global
                table: its key, from the record's key and value. `store`: how a stream's records are kept. `values`,
                `named`.

        Raises:
            ConfigurationError: the grace is for versioned tables, within their history; an option is missing, or is for
                others; the keys are of different types.
        """
        return self._join("join", other, joiner, windows, alone=(False, False), options=options)

    @overload
    def left_join(
        self, other: KStream[K, W], joiner: Joiner[V, W | None, R, K], windows: JoinWindows, *,
        store: Store[Any] | None = None, values: Type[R] | None = None, named: str | None = None,
    ) -> KStream[K, R]: ...  # fmt: skip

    @overload
    def left_join(
        self, other: KTable[K, W], joiner: Joiner[V, W | None, R, K], *, grace: timedelta | None = None,
        values: Type[R] | None = None, named: str | None = None,
    ) -> KStream[K, R]: ...  # fmt: skip

    @overload
    def left_join(
        self, other: GlobalTable[K2, W], joiner: Joiner[V, W | None, R, K], *, on: Callable[[K, V], K2 | None],
        values: Type[R] | None = None, named: str | None = None,
    ) -> KStream[K, R]: ...  # fmt: skip

    def left_join(self, other: Any, joiner: Any, windows: JoinWindows | None = None, **options: Any) -> KStream[K, Any]:
        """As `join`; a record of this stream without a partner gives `joiner(left, None)`."""
        return self._join("left-join", other, joiner, windows, alone=(True, False), options=options)

    def outer_join(
        self, other: KStream[K, W], joiner: Joiner[V | None, W | None, R, K], windows: JoinWindows, *,
        store: Store[Any] | None = None, values: Type[R] | None = None, named: str | None = None,
    ) -> KStream[K, R]:  # fmt: skip
        """As `join`; a record of either stream without a partner gives a result with None for the other."""
        check_kind("outer-join", other, KStream, "a stream")
        options = {"store": store, "values": values, "named": named}
        return self._join("outer-join", other, joiner, windows, alone=(True, True), options=options)

    def by_key(self) -> KStream[K, V]:
        """The same stream with the records of one key in one partition: repartitioned if its key has changed."""
        if not self.rekeyed:
            return self
        known = next((node for node, _ in self.node.children if type(node) is RepartitionSink and node.automatic), None)
        if known is None:
            known = RepartitionSink(self.node, *self.serdes.required(f"{self.node.name}.repartition"))
            known.automatic = True
        return KStream(known.source, self.serdes, nullable=self.nullable)

    def _join(
        self, kind: str, other: Any, joiner: Any, windows: JoinWindows | None, *, alone: tuple[bool, bool],
        options: dict[str, Any],
    ) -> KStream[K, Any]:  # fmt: skip
        named, grace = options.get("named"), options.get("grace")
        check_function(self._operator(kind, named), "joiner(left, right)", joiner, key=True)
        where = self._operator(kind, named)
        _check_options(where, other, windows, options)
        join = keyed(joiner)
        result = Serdes(self.serdes.keys, made_by(joiner, options.get("values")))
        if isinstance(other, GlobalTable):
            on = options["on"]
            check_function(where, "on(key, value)", on)
            check_type(f"{where}: on gives keys of", made_by(on), other.node.key_serde)
            global_join = GlobalJoin(self.node, other.node, kind, on, join, keeps_unmatched=alone[0], named=named)
            return KStream(global_join, result, rekeyed=self.rekeyed)
        check_keys(where, self.serdes.keys, other.row_keys if isinstance(other, KTable) else other.serdes.keys)
        left = self.by_key()
        if isinstance(other, KTable):
            grace_ms = None if grace is None else milliseconds(grace, f"the grace of {where}")
            check_grace(other, grace_ms)
            # A join without a buffer needs no serdes.
            serdes: Any = left.serdes if grace_ms is None else left.serdes.required(f"{left.node.name}.{kind}")
            table_join = StreamTableJoin(
                left.node, other.node, kind, joiner, serdes, keeps_unmatched=alone[0], grace_ms=grace_ms, named=named
            )  # fmt: skip
            return KStream(table_join, result)
        assert windows is not None  # noqa: S101 (`_check_options` has seen to it)
        right: KStream[Any, Any] = other.by_key()
        keys, left_values = left.serdes.required(f"{left.node.name}.{kind}")
        values = (left_values, right.serdes.required_values(f"{right.node.name}.{kind}"))
        node = StreamJoin(
            left.node,
            right.node,
            kind,
            joiner=join,
            windows=windows,
            keys=keys,
            values=values,
            alone=alone,
            store=options_of(options.get("store")),
            named=named,
        )
        return KStream(node, result)

    def _calls(self) -> None:
        """A function is called with the values: where their type has no null, records without a value are refused."""
        if not self.nullable:
            refuse_nulls(self.node)

    def _same(self, kind: Kind, function: Callable[..., Any], named: str | None) -> KStream[K, V]:
        node = Stateless(self.node, kind, function, named=named)
        return KStream(node, self.serdes, rekeyed=self.rekeyed, nullable=self.nullable)

    def _operator(self, kind: str, named: str | None) -> str:
        return operator_name(kind, (self.node,), named)

    def _check(self, kind: str, takes: str, function: Any, named: str | None, **where: bool) -> None:
        check_function(self._operator(kind, named), takes, function, **where)
        self._calls()

    def _check_process(self, kind: str, factory: Any, stores: Any, named: str | None) -> None:
        operator = self._operator(kind, named)
        check_processor(operator, factory)
        if isinstance(stores, str | Store):
            raise ConfigurationError(f"{operator}: stores= takes a list: stores=[{name_of(stores)!r}]")
        self._calls()


class SplitStream(Generic[K, V]):
    """A stream on its way to its branches."""

    def __init__(self, stream: KStream[K, V], node: Split) -> None:
        self._stream = stream
        self._node = node

    def branch(self, predicate: Callable[[K, V], bool], *, named: str | None = None) -> KStream[K, V]:
        """The records for which the predicate holds and no earlier branch's did.

        Raises:
            ConfigurationError: there is a default branch already.
        """
        if len(self._node.children) > len(self._node.predicates):
            raise ConfigurationError("the default branch is the last: add other branches before it")
        check_function(f"a branch of {self._node.name}", _PREDICATE, predicate)
        self._node.predicates.append(predicate)
        return self._branch(named)

    def default(self, *, named: str | None = None) -> KStream[K, V]:
        """The records that no branch took. Without a default branch they are gone."""
        return self._branch(named)

    def _branch(self, named: str | None) -> KStream[K, V]:
        stream = self._stream
        return KStream(Branch(self._node, named), stream.serdes, rekeyed=stream.rekeyed, nullable=stream.nullable)


def _rekeyed(node: GraphNode, types: tuple[Any, Any], keys: Any, values: Any) -> KStream[Any, Any]:
    """Records with new keys and values, of the types that a function is annotated to make unless others are given."""
    return KStream(node, Serdes(keys_of(node.name, types[0], keys), of_type(types[1], values)), rekeyed=True)


def _check_options(where: str, other: object, windows: object, options: Mapping[str, Any]) -> None:
    """Refuses the options of another kind of join.

    Raises:
        ConfigurationError: one is missing or has no meaning here, or `other` can't be joined.
    """
    check_kind(where, other, KStream | KTable | GlobalTable, "a stream, a table or a global table")
    own = "store" if isinstance(other, KStream) else "grace" if isinstance(other, KTable) else "on"
    foreign = sorted(
        options.keys() - {own, "values", "named"} - {name for name, value in options.items() if value is None}
    )
    if not isinstance(other, KStream) and windows is not None:
        foreign.append("windows")
    if foreign:
        raise ConfigurationError(
            f"{where}: a {type(other).__name__} is not joined with {foreign[0]}=, only with {own}=, values= and named="
        )
    if isinstance(other, KStream) and windows is None:
        raise ConfigurationError(f"{where}: two streams are joined within a window: pass windows=JoinWindows.of(...)")
    if windows is not None:
        check_kind(where, windows, JoinWindows, "windows=JoinWindows.of(...)")
    if isinstance(other, GlobalTable) and options.get("on") is None:
        msg = f"{where}: pass on=: a function that gives the global table's key, from the record's key and value"
        raise ConfigurationError(msg)


def check_grace(table: KTable[Any, Any], grace_ms: int | None) -> None:
    """Refuses a grace that the table can't serve.

    Raises:
        ConfigurationError: the table is not versioned, or its history is shorter than the grace.
    """
    if grace_ms is None:
        return
    versioned = table.node.versioned
    if versioned is None:
        msg = f"{table.node.name} is not versioned: a join with a grace needs a table with Store(history=...)"
        raise ConfigurationError(msg)
    if grace_ms > versioned.retention_ms:
        raise ConfigurationError(
            f"a grace of {grace_ms} ms reaches further than the history of {table.node.name}, "
            f"{versioned.retention_ms} ms: keep a longer history"
        )
