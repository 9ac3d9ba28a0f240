"""Tables as topologies describe them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from storekeeper.errors import ConfigurationError
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import StructSerde
from storekeeper.topology.aggregator import ADDER, INITIALIZE, Adder, Aggregator, AnyStore, count, reduction, row_serdes
from storekeeper.topology.function_checks import check_function, check_kind
from storekeeper.topology.functions import Joiner, Type, ValueMapper, WithKey, keyed, returned_pair
from storekeeper.topology.node import GraphNode, TableNode, operator_name
from storekeeper.topology.operators.derived_table import DerivedTableNode
from storekeeper.topology.operators.foreign_key import ForeignKeyJoin
from storekeeper.topology.operators.grouped_table import GroupedTableAggregate, GroupTableSink
from storekeeper.topology.operators.joined_windows import check_windows
from storekeeper.topology.operators.source import GlobalSource
from storekeeper.topology.operators.stateless import ToStream
from storekeeper.topology.operators.suppress import Suppress, Suppressed
from storekeeper.topology.operators.table_join import TableJoin
from storekeeper.topology.serde_checks import Serdes, check_keys, check_type, keys_of, made_by, of_type
from storekeeper.topology.store import Store, options_of
from storekeeper.topology.windows import WindowedSerde, Windows

if TYPE_CHECKING:
    from storekeeper.topology.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
W = TypeVar("W")
R = TypeVar("R")
K2 = TypeVar("K2")
V2 = TypeVar("V2")

_PREDICATE = "predicate(key, value)"


class GlobalTable(Generic[K, V]):
    """A table that every task has whole. Join a stream with it."""

    def __init__(self, node: GlobalSource) -> None:
        self.node = node


class KTable(Generic[K, V]):
    """The newest value of each key, and the changes of the rows.

    A derived table has rows of its own if `store` is given; else it asks the table above.
    """

    def __init__(self, node: TableNode, serdes: Serdes, *, windows: Windows | None = None) -> None:
        self.node = node
        self.serdes = serdes
        self.windows = windows

    def filter(
        self, predicate: Callable[[K, V], bool], *, store: str | Store[V] | None = None, named: str | None = None
    ) -> KTable[K, V]:
        """The rows for which `predicate(key, value)` holds. A row that stops matching becomes a tombstone."""
        self._check("filter", _PREDICATE, predicate, named)
        return self._derived("filter", predicate, self.serdes.values, store, named, filters=True)

    def filter_not(
        self, predicate: Callable[[K, V], bool], *, store: str | Store[V] | None = None, named: str | None = None
    ) -> KTable[K, V]:
        """The rows for which `predicate(key, value)` does not hold."""
        self._check("filter-not", _PREDICATE, predicate, named)
        return self._derived(
            "filter-not", lambda key, value: not predicate(key, value), self.serdes.values, store, named, filters=True
        )

    def map_values(
        self, mapper: ValueMapper[V, R, K], *, values: Type[R] | None = None, store: str | Store[R] | None = None,
        named: str | None = None,
    ) -> KTable[K, R]:  # fmt: skip
        """The same keys with `mapper(value)`. A mapper's None is a tombstone; tombstones are not mapped."""
        self._check("map-values", "mapper(value)", mapper, named, key=True)
        return self._derived("map-values", keyed(mapper), made_by(mapper, values), store, named, filters=False)

    def to_stream(self, *, named: str | None = None) -> KStream[K, V]:
        """The changes as a stream: the new value, or None for a row that is gone."""
        return self.node.graph.stream(ToStream(self.node, named=named), Serdes(self.row_keys, self.serdes.values))

    def group_by(
        self, selector: Callable[[K, V], tuple[K2, V2]], *, keys: Type[K2] | None = None,
        values: Type[V2] | None = None, named: str | None = None,
    ) -> KGroupedTable[K2, V2]:  # fmt: skip
        """Groups the rows by another key, for an aggregation.

        Args:
            selector: `selector(key, value)` returns the key of the group, and the value for the aggregation.
            keys: the type of the groups' keys, or a serde; text, unless the selector's annotation says otherwise.
            values: the type of the values, or a serde.
            named: the operator's name.
        """
        self._check("group-by", "selector(key, value)", selector, named)
        self.node.require_rows()
        where, types = self._operator("group-by", named), returned_pair(selector)
        known = Serdes(keys_of(where, types[0], keys), of_type(types[1], values))
        key_serde, value_serde = known.required(where)
        sink = GroupTableSink(self.node, key_serde, value_serde, selector, named=named)
        return KGroupedTable(sink.source, known)

    def suppress(self, until: Suppressed[Any], *, named: str | None = None) -> KTable[K, V]:
        """Holds changes back: `until_window_closes(...)` or `until_limit(...)`."""
        check_kind("suppress", until, Suppressed, "until_window_closes(...) or until_limit(...)")
        where = self._operator("suppress", named)
        if until.windows is not None and not self._may_have(until.windows):
            msg = f"{where}: until_window_closes takes the windows of the table, which are {self.windows or 'none'}"
            raise ConfigurationError(msg)
        serdes = self.serdes.required(where)
        node = Suppress(self.node, until, serdes, windowed=self.windows is not None, named=named)
        return KTable(node, self.serdes, windows=self.windows)

    def join(self, other: KTable[K, W], joiner: Joiner[V, W, R, K], *, values: Type[R] | None = None,
             store: str | Store[R] | None = None, named: str | None = None) -> KTable[K, R]:  # fmt: skip
        """Joins the rows of two tables by key. A key that one table lacks gives no row.

        Args:
            other: a table with the same keys and the same number of partitions.
            joiner: `joiner(left, right)` returns the value of the result.
            values: the type of the results, or a serde, if the joiner has no return annotation.
            store: keeps the result's rows: its name, or options.
            named: the operator's name.
        """
        return self._joined("join", other, joiner, (False, False), values=values, store=store, named=named)

    def left_join(self, other: KTable[K, W], joiner: Joiner[V, W | None, R, K], *, values: Type[R] | None = None,
                  store: str | Store[R] | None = None, named: str | None = None) -> KTable[K, R]:  # fmt: skip
        """As `join`; a row of this table without a partner gives `joiner(left, None)`."""
        return self._joined("left-join", other, joiner, (True, False), values=values, store=store, named=named)

    def outer_join(self, other: KTable[K, W], joiner: Joiner[V | None, W | None, R, K], *,
                   values: Type[R] | None = None, store: str | Store[R] | None = None,
                   named: str | None = None) -> KTable[K, R]:  # fmt: skip
        """As `join`; a row of either table without a partner gives a result with None for the other."""
        return self._joined("outer-join", other, joiner, (True, True), values=values, store=store, named=named)

    def foreign_key_join(
        self, other: KTable[K2, W], foreign_key: Callable[[V], K2 | None], joiner: Joiner[V, W, R, K], *,
        values: Type[R] | None = None, store: str | Store[R] | None = None, named: str | None = None,
    ) -> KTable[K, R]:  # fmt: skip
        """Joins each row with the row of another table whose key it names. Without such a row there is no result.

        The result's rows are always kept: the join can't know otherwise which rows to delete.

        Args:
            other: the other table; `foreign_key` returns its keys.
            foreign_key: returns the other row's key from this row's value; None for no partner.
            joiner: `joiner(left, right)` returns the value of the result.
            values: the type of the results, or a serde, if the joiner has no return annotation.
            store: keeps the result's rows: its name, or options.
            named: the operator's name.
        """
        return self._foreign("foreign-key-join", other, foreign_key, joiner, values=values, store=store, named=named)

    def foreign_key_left_join(
        self, other: KTable[K2, W], foreign_key: Callable[[V], K2 | None], joiner: Joiner[V, W | None, R, K], *,
        values: Type[R] | None = None, store: str | Store[R] | None = None, named: str | None = None,
    ) -> KTable[K, R]:  # fmt: skip
        """As `foreign_key_join`; a row without a partner gives `joiner(left, None)`."""
        return self._foreign(
            "foreign-key-left-join", other, foreign_key, joiner, values=values, store=store, named=named
        )

    def _may_have(self, windows: Windows) -> bool:
        """Whether its keys are in such windows. What was a stream on the way doesn't tell which they are."""
        return self.windows == windows or (self.windows is None and isinstance(self.serdes.keys, WindowedSerde))

    def _derived(
        self, kind: str, mapper: Any, values: Any, store: Any, named: str | None, *, filters: bool
    ) -> KTable[K, Any]:
        options = options_of(store)
        serdes = Serdes(self.serdes.keys, values if options is None else options.value_serde or values)
        needed = self._row_serdes(serdes, options, kind)
        node = DerivedTableNode(self.node, kind, mapper, needed, options, filters=filters, named=named)
        return KTable(node, serdes, windows=self.windows)

    def _joined(
        self, kind: str, other: KTable[K, Any], joiner: Any, alone: tuple[bool, bool], *, values: Any, store: Any,
        named: str | None,
    ) -> KTable[K, Any]:  # fmt: skip
        self._check(kind, "joiner(left, right)", joiner, named, key=True)
        check_kind(kind, other, KTable, "a table; a stream joins a table, not the other way round")
        check_keys(self._operator(kind, named), self.row_keys, other.row_keys)
        check_windows(self._operator(kind, named), self.windows, other.windows)
        options = options_of(store)
        known = made_by(joiner, values) or (None if options is None else options.value_serde)
        serdes = Serdes(self.serdes.keys, known)
        needed = self._row_serdes(serdes, options, kind)
        node = TableJoin(
            self.node, other.node, kind, keyed(joiner), serdes=needed, store=options,
            alone=alone, named=named,
        )  # fmt: skip
        return KTable(node, serdes, windows=self.windows)

    def _foreign(
        self, kind: str, other: KTable[Any, Any], foreign_key: Any, joiner: Any, *, values: Any, store: Any,
        named: str | None,
    ) -> KTable[K, Any]:  # fmt: skip
        where = self._operator(kind, named)
        self._check(kind, "joiner(left, right)", joiner, named, key=True)
        self._check(kind, "foreign_key(value)", foreign_key, named)
        check_kind(kind, other, KTable, "a table")
        check_type(f"{where}: foreign_key gives keys of", made_by(foreign_key), other.row_keys)
        options = options_of(store)
        serdes = tuple(Serdes(table.row_keys, table.serdes.values).required(where) for table in (self, other))
        result = made_by(joiner, values) or (None if options is None else options.value_serde)
        node = ForeignKeyJoin(
            self.node, other.node, kind, foreign_key=foreign_key, joiner=keyed(joiner), serdes=serdes,
            values=result, store=options, windowed=self.windows is not None,
            keeps_unmatched=kind == "foreign-key-left-join", named=named,
        )  # fmt: skip
        return KTable(node, Serdes(self.serdes.keys, result), windows=self.windows)

    def _row_serdes(self, serdes: Serdes, options: Store[Any] | None, kind: str) -> Any:
        """What a store of this table's keys needs; without a store nothing is needed."""
        known = Serdes(self.row_keys, serdes.values)
        return known if options is None else known.required(f"{self.node.name}.{kind}")

    def _operator(self, kind: str, named: str | None) -> str:
        return operator_name(kind, (self.node,), named)

    def _check(self, kind: str, takes: str, function: Any, named: str | None, *, key: bool = False) -> None:
        check_function(self._operator(kind, named), takes, function, key=key)

    @property
    def row_keys(self) -> Serde[Any] | None:
        """The serde of its rows' keys, with their windows."""
        keys = self.serdes.keys
        return WindowedSerde(keys) if self.windows is not None and keys is not None else keys


class KGroupedTable(Generic[K, V]):
    """The rows of a table by their group."""

    def __init__(self, node: GraphNode, serdes: Serdes) -> None:
        self._node = node
        self._serdes = serdes

    def count(self, *, store: AnyStore[int] = None, named: str | None = None) -> KTable[K, int]:
        """Counts the rows of each group. A group without rows stays, with 0."""
        return self._table("count", count(), store, StructSerde(int), named)

    def reduce(
        self, adder: Callable[[V, V], V], subtractor: Callable[[V, V], V], *, store: AnyStore[V] = None,
        named: str | None = None,
    ) -> KTable[K, V]:  # fmt: skip
        """Combines the values of each group two at a time.

        Args:
            adder: `adder(aggregate, value)` returns the aggregate with the value.
            subtractor: `subtractor(aggregate, value)` returns the aggregate without the value.
            store: the store of the aggregates: its name, or options.
            named: the operator's name.
        """
        self._check("reduce", named, adder, subtractor)
        return self._table("reduce", reduction(adder, subtractor), store, self._serdes.values, named)

    @overload
    def aggregate(
        self, initialize: Callable[[], A], adder: Callable[[A, V], A | None], subtractor: Callable[[A, V], A | None], *,
        store: AnyStore[A] = None, named: str | None = None,
    ) -> KTable[K, A]: ...  # fmt: skip

    @overload
    def aggregate(
        self, initialize: Callable[[], A], adder: Adder[A, V, K], subtractor: Adder[A, V, K], *,
        store: AnyStore[A] = None, named: str | None = None,
    ) -> KTable[K, A]: ...  # fmt: skip

    def aggregate(
        self, initialize: Any, adder: Any, subtractor: Any, *, store: Any = None, named: str | None = None
    ) -> KTable[K, Any]:
        """Folds the values of each group into an aggregate. A change subtracts the old value, then adds the new.

        Args:
            initialize: returns the aggregate of a group without rows.
            adder: `adder(aggregate, value)` returns the aggregate with the value.
            subtractor: `subtractor(aggregate, value)` returns the aggregate without the value.
            store: the store of the aggregates: its name, or options.
            named: the operator's name.
        """
        self._check("aggregate", named, adder, subtractor, key=True)
        check_function(operator_name("aggregate", (self._node,), named), INITIALIZE, initialize)
        add, subtract = _as_called(adder), _as_called(subtractor)
        aggregator = Aggregator(initialize, add, subtract=subtract)
        return self._table("aggregate", aggregator, store, made_by(initialize), named)

    def _table(
        self, kind: str, aggregator: Aggregator[Any, Any, Any], store: Any, values: Serde[Any] | None, named: str | None
    ) -> KTable[K, Any]:
        options = options_of(store)
        operator = operator_name(kind, (self._node,), named)
        serdes = row_serdes(operator, kind, self._serdes, values, options)
        required = serdes.required(operator)
        return KTable(GroupedTableAggregate(self._node, kind, aggregator, required, options, named=named), serdes)

    def _check(self, kind: str, named: str | None, adder: Any, subtractor: Any, *, key: bool = False) -> None:
        operator = operator_name(kind, (self._node,), named)
        check_function(operator, ADDER, adder, key=key)
        check_function(operator, "subtractor(aggregate, value)", subtractor, key=key)


def _as_called(adder: Any) -> Callable[[Any, Any, Any], Any]:
    """The adder as operators of tables call it: with the key, the value, the aggregate."""
    if isinstance(adder, WithKey):
        of_key = adder.function
        return lambda key, value, aggregate: of_key(key, aggregate, value)
    return lambda _key, value, aggregate: adder(aggregate, value)
