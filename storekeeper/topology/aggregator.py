"""How values are folded into an aggregate: the start, the step and, for sessions and tables, the way to join and undo.

Aggregates must not be mutated: an adder returns a new one and leaves its argument unchanged, as several windows may
hold the same aggregate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from storekeeper.errors import InvalidArgumentError
from storekeeper.serdes.serde import Serde
from storekeeper.topology.functions import WithKey
from storekeeper.topology.serde_checks import Serdes, check_type
from storekeeper.topology.store import Store

A = TypeVar("A")
K = TypeVar("K")
V = TypeVar("V")

Initializer = Callable[[], A]
Merger = Callable[[K, A, A], A]


@dataclass(frozen=True, slots=True)
class Aggregator(Generic[K, V, A]):
    """A fold over the values of one key.

    Attributes:
        initialize: makes the aggregate of no values.
        add: `add(key, value, aggregate)` gives the aggregate with the value in it. None removes the row. Where
            aggregates are of windows or sessions, it gets the windowed key.
        merge: `merge(key, one, two)` joins the aggregates of two sessions, the earlier one first. Only sessions
            need it; their `initialize()` must be neutral to it.
        subtract: `subtract(key, value, aggregate)` undoes `add`. Only aggregations of tables need it. None removes
            the row.
    """

    initialize: Initializer[A]
    add: Callable[[K, V, A], A]
    merge: Merger[K, A] | None = None
    subtract: Callable[[K, V, A], A] | None = None

    @property
    def merger(self) -> Merger[K, A]:
        """`merge`.

        Raises:
            InvalidArgumentError: there is none.
        """
        if self.merge is None:
            raise InvalidArgumentError("this aggregator can't join sessions: give it a merge")
        return self.merge

    @property
    def subtractor(self) -> Callable[[K, V, A], A]:
        """`subtract`.

        Raises:
            InvalidArgumentError: there is none.
        """
        if self.subtract is None:
            raise InvalidArgumentError("this aggregator can't undo an old value: give it a subtract")
        return self.subtract


def count() -> Aggregator[Any, Any, int]:
    """How many records, or rows, there are."""
    return Aggregator(
        initialize=lambda: 0,
        add=lambda _key, _value, aggregate: aggregate + 1,
        merge=lambda _key, one, two: one + two,
        subtract=lambda _key, _value, aggregate: aggregate - 1,
    )


def reduction(reducer: Callable[[V, V], V], undo: Callable[[V, V], V] | None = None) -> Aggregator[Any, V, V | None]:
    """Values combined two at a time; the first one stands for itself.

    Args:
        reducer: `reducer(aggregate, value)`.
        undo: `undo(aggregate, value)` takes a value out again, or None where nothing is ever taken out.
    """

    def add(_key: object, value: V, aggregate: V | None) -> V | None:
        return value if aggregate is None else reducer(aggregate, value)

    def merge(_key: object, one: V | None, two: V | None) -> V | None:
        if one is None or two is None:
            return two if one is None else one
        return reducer(one, two)

    def subtract(_key: object, value: V, aggregate: V | None) -> V | None:
        return None if aggregate is None or undo is None else undo(aggregate, value)

    return Aggregator(initialize=lambda: None, add=add, merge=merge, subtract=None if undo is None else subtract)


Adder = Callable[[A, V], A | None] | WithKey[Callable[[K, A, V], A | None]]
"""`adder(aggregate, value)` gives the aggregate with the value in it, or None, which removes the row."""
AnyStore = str | Store[A] | None
INITIALIZE = "initialize()"
ADDER = "adder(aggregate, value)"


def row_serdes(
    operator: str, kind: str, above: Serdes, values: Serde[Any] | None, options: Store[Any] | None
) -> Serdes:
    """The serdes of an aggregate's rows.

    Raises:
        ConfigurationError: a type is not known.
    """
    stored = None if options is None else options.value_serde
    if kind != "aggregate":
        check_type(f"{operator}: the values are", values, stored)
    known = Serdes(above.keys, stored or values)
    name = (None if options is None else options.name) or "totals"
    way_on = "annotate what makes them where the stream is made, or pass values= there"
    if kind == "aggregate":
        way_on = f"annotate what the initializer returns, or pass store=Store({name!r}, int) with their type"
    known.required_keys(operator)
    known.required_values(operator, way_on)
    return known
