"""Grouped streams and tables, and their aggregations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

from storekeeper.errors import ConfigurationError
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import StructSerde
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.aggregator import ADDER, INITIALIZE, Aggregator, AnyStore, count, reduction, row_serdes
from storekeeper.topology.function_checks import check_function, check_kind
from storekeeper.topology.functions import WithKey, WithWindow, keyed
from storekeeper.topology.ktable import KTable
from storekeeper.topology.node import GraphNode, operator_name
from storekeeper.topology.operators.aggregate import StreamAggregate
from storekeeper.topology.serde_checks import Serdes, check_keys, made_by
from storekeeper.topology.store import options_of
from storekeeper.topology.windows import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Windows,
)

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
G = TypeVar("G")
W = TypeVar("W")

Merger = Callable[[A, A], A] | WithKey[Callable[[K, A, A], A]]
"""`merger(earlier, later)` joins the aggregates of two sessions."""


class _Folding(Generic[K]):
    """Streams with the windows that their aggregates are for."""

    def __init__(
        self, nodes: Sequence[GraphNode], serdes: Serdes, windows: Windows | None = None,
        emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
    ) -> None:  # fmt: skip
        self._nodes = nodes
        self._serdes = serdes
        self._windows = windows
        self._emit = emit

    def _fold(
        self, kind: str, aggregator: Aggregator[Any, Any, Any], store: Any, values: Serde[Any] | None,
        *, named: str | None, adders: Sequence[Any],
    ) -> KTable[Any, Any]:  # fmt: skip
        options = options_of(store)
        serdes = row_serdes(self._operator(kind, named), kind, self._serdes, values, options)
        node = StreamAggregate(
            self._nodes, kind, aggregator, serdes.required(kind), options,
            adders=adders, windows=self._windows, emit=self._emit, named=named,
        )  # fmt: skip
        return KTable(node, serdes, windows=self._windows)

    def _aggregate(
        self, initialize: Any, adders: Sequence[Any], merger: Any, store: Any, named: str | None
    ) -> KTable[Any, Any]:
        if isinstance(self._windows, SessionWindows) and merger is None:
            raise ConfigurationError("sessions are merged: give aggregate a merger=")
        operator, in_windows = self._operator("aggregate", named), self._windows is not None
        check_function(operator, INITIALIZE, initialize)
        for adder in adders:
            check_function(operator, ADDER, adder, key=True, window=in_windows)
        if merger is not None:
            check_function(operator, "merger(earlier, later)", merger, key=True)
        aggregator: Aggregator[Any, Any, Any] = Aggregator(
            initialize, adders[0], None if merger is None else keyed(merger)
        )
        return self._fold("aggregate", aggregator, store, made_by(initialize), named=named, adders=adders)

    def _operator(self, kind: str, named: str | None) -> str:
        return operator_name(kind, self._nodes, named)


class _Groups(_Folding[K], Generic[G, K, V]):
    """Groups of records, and their aggregations: by key, or by key and window."""

    def count(self, *, store: AnyStore[int] = None, named: str | None = None) -> KTable[G, int]:
        """Counts the records of each group."""
        return self._fold("count", count(), store, StructSerde(int), named=named, adders=[_one_more])

    def reduce(
        self, reducer: Callable[[V, V], V], *, store: AnyStore[V] = None, named: str | None = None
    ) -> KTable[G, V]:
        """Combines the values of each group two at a time. The first value is the first aggregate.

        Args:
            reducer: `reducer(aggregate, value)` returns the new aggregate.
            store: the store of the aggregates: its name, or options.
            named: the operator's name.
        """
        check_function(self._operator("reduce", named), "reducer(aggregate, value)", reducer)

        def add(aggregate: V | None, value: V) -> V:
            return value if aggregate is None else reducer(aggregate, value)

        return self._fold("reduce", reduction(reducer), store, self._serdes.values, named=named, adders=[add])

    # A form of the adder each: a type checker that is offered several at once infers nothing for a lambda.

    @overload
    def aggregate(
        self, initialize: Callable[[], A], adder: Callable[[A, V], A | None], merger: Merger[A, K] | None = None,
        *, store: AnyStore[A] = None, named: str | None = None,
    ) -> KTable[G, A]: ...  # fmt: skip

    @overload
    def aggregate(
        self, initialize: Callable[[], A], adder: WithKey[Callable[[K, A, V], A | None]],
        merger: Merger[A, K] | None = None, *, store: AnyStore[A] = None, named: str | None = None,
    ) -> KTable[G, A]: ...  # fmt: skip

    @overload
    def aggregate(
        self, initialize: Callable[[], A], adder: WithWindow[Callable[[G, A, V], A | None]],
        merger: Merger[A, K] | None = None, *, store: AnyStore[A] = None, named: str | None = None,
    ) -> KTable[G, A]: ...  # fmt: skip

    def aggregate(
        self, initialize: Any, adder: Any, merger: Any = None, *, store: Any = None, named: str | None = None
    ) -> KTable[G, Any]:
        """Folds the values of each group into an aggregate.

        Args:
            initialize: returns the aggregate of a group without values.
            adder: `adder(aggregate, value)` returns the new aggregate and leaves the old one unchanged. None removes
                the row. In windows, `with_window(adder)` also gets the windowed key, first.
            merger: `merger(earlier, later)` joins the aggregates of two sessions. Sessions need it.
            store: the store of the aggregates: its name, or options.
            named: the operator's name.
        """
        return self._aggregate(initialize, [adder], merger, store, named)


class KGroupedStream(_Groups[K, K, V], Generic[K, V]):
    """The records of each key. Records without key or value are left out and counted."""

    def __init__(self, node: GraphNode, serdes: Serdes) -> None:
        super().__init__([node], serdes)

    @overload
    def windowed_by(self, windows: SessionWindows, *, emit: EmitStrategy = ...) -> SessionStream[K, V]: ...

    @overload
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows, *, emit: EmitStrategy = ...
    ) -> WindowedStream[K, V]: ...

    def windowed_by(
        self, windows: Windows, *, emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE
    ) -> WindowedStream[K, V] | SessionStream[K, V]:
        """The records of each key and window.

        Args:
            windows: `tumbling(...)`, `hopping(...)`, `sliding(...)` or `sessions(...)`.
            emit: on every update, or once when a window closes.
        """
        kind = SessionStream if isinstance(windows, SessionWindows) else WindowedStream
        return kind(self._nodes, self._serdes, *_checked_windows(self._nodes, windows, emit))

    @overload
    def cogroup(self, adder: Callable[[A, V], A | None]) -> CogroupedStream[K, A]: ...

    @overload
    def cogroup(self, adder: WithKey[Callable[[K, A, V], A | None]]) -> CogroupedStream[K, A]: ...

    def cogroup(self, adder: Any) -> CogroupedStream[K, Any]:
        """Starts an aggregate of several streams. `adder` adds the values of this one.

        Raises:
            ConfigurationError: the adder takes other arguments.
        """
        check_function(f"{self._nodes[0].name}.cogroup", ADDER, adder, key=True, window=True)
        return CogroupedStream([(self._nodes[0], adder)], self._serdes)


class WindowedStream(_Groups[Windowed[K], K, V], Generic[K, V]):
    """The records of each key and window. Late ones are left out and counted."""


class SessionStream(_Groups[Windowed[K], K, V], Generic[K, V]):
    """The records of each key and session. Late ones are left out and counted."""

    @overload  # type: ignore[override]
    def aggregate(
        self, initialize: Callable[[], A], adder: Callable[[A, V], A | None], merger: Merger[A, K],
        *, store: AnyStore[A] = None, named: str | None = None,
    ) -> KTable[Windowed[K], A]: ...  # fmt: skip

    @overload
    def aggregate(
        self, initialize: Callable[[], A], adder: WithKey[Callable[[K, A, V], A | None]], merger: Merger[A, K],
        *, store: AnyStore[A] = None, named: str | None = None,
    ) -> KTable[Windowed[K], A]: ...  # fmt: skip

    @overload
    def aggregate(
        self, initialize: Callable[[], A], adder: WithWindow[Callable[[Windowed[K], A, V], A | None]],
        merger: Merger[A, K], *, store: AnyStore[A] = None, named: str | None = None,
    ) -> KTable[Windowed[K], A]: ...  # fmt: skip

    def aggregate(
        self, initialize: Any, adder: Any, merger: Any = None, *, store: Any = None, named: str | None = None
    ) -> KTable[Windowed[K], Any]:
        """As of other windows; `merger(earlier, later)` joins the aggregates of two sessions that become one."""
        return self._aggregate(initialize, [adder], merger, store, named)


class CogroupedStream(Generic[K, A]):
    """Several grouped streams on their way into one aggregate."""

    def __init__(self, parts: Sequence[tuple[GraphNode, Any]], serdes: Serdes) -> None:
        self._parts = parts
        self._serdes = serdes

    @overload
    def cogroup(self, other: KGroupedStream[K, W], adder: Callable[[A, W], A | None]) -> CogroupedStream[K, A]: ...

    @overload
    def cogroup(
        self, other: KGroupedStream[K, W], adder: WithKey[Callable[[K, A, W], A | None]]
    ) -> CogroupedStream[K, A]: ...

    def cogroup(self, other: KGroupedStream[K, W], adder: Any) -> CogroupedStream[K, A]:
        """Adds another stream. `adder` adds its values.

        Raises:
            ConfigurationError: its keys are of another type, or the adder takes other arguments.
        """
        check_kind("cogroup", other, KGroupedStream, "a grouped stream")
        where = f"{self._parts[0][0].name}.cogroup"
        check_keys(where, self._serdes.keys, other._serdes.keys)  # noqa: SLF001 (its sibling)
        check_function(where, ADDER, adder, key=True, window=True)
        return CogroupedStream([*self._parts, (other._nodes[0], adder)], self._serdes)  # noqa: SLF001 (its sibling)

    def windowed_by(
        self, windows: Windows, *, emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE
    ) -> WindowedCogroup[K, A]:
        """One aggregate for each key and window."""
        nodes = [node for node, _ in self._parts]
        return WindowedCogroup(self._parts, self._serdes, *_checked_windows(nodes, windows, emit))

    def aggregate(
        self, initialize: Callable[[], A], *, store: AnyStore[A] = None, named: str | None = None
    ) -> KTable[K, A]:
        """The aggregate of each key."""
        return WindowedCogroup[K, A](self._parts, self._serdes, None).aggregate(initialize, store=store, named=named)  # type: ignore[return-value]


class WindowedCogroup(_Folding[K], Generic[K, A]):
    """Several grouped streams on their way into one aggregate for each window."""

    def __init__(
        self, parts: Sequence[tuple[GraphNode, Any]], serdes: Serdes, windows: Windows | None,
        emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
    ) -> None:  # fmt: skip
        super().__init__([node for node, _ in parts], serdes, windows, emit)
        self._adders = [adder for _, adder in parts]

    def aggregate(
        self, initialize: Callable[[], A], merger: Merger[A, K] | None = None, *, store: AnyStore[A] = None,
        named: str | None = None,
    ) -> KTable[Windowed[K], A]:  # fmt: skip
        """The aggregate of each key and window. Sessions need a merger."""
        return self._aggregate(initialize, self._adders, merger, store, named)


def _checked_windows(nodes: Sequence[GraphNode], windows: Any, emit: Any) -> tuple[Windows, EmitStrategy]:
    """The windows and the strategy, if they are such."""
    check_kind(
        f"{nodes[0].name}.windowed-by", windows, Windows, "tumbling(...), hopping(...), sliding(...) or sessions(...)"
    )
    try:
        return windows, EmitStrategy(emit)
    except ValueError as error:
        msg = f"{nodes[0].name}.windowed-by: emit= takes an EmitStrategy, not {emit!r:.60}"
        raise ConfigurationError(msg) from error


def _one_more(count: int, _value: object) -> int:
    return count + 1
