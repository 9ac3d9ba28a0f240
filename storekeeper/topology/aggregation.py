"""What all aggregations share: the serdes of their rows, and how their functions are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from storekeeper.serdes.serde import Serde
from storekeeper.topology.functions import WithKey
from storekeeper.topology.known_serdes import Serdes
from storekeeper.topology.serde_checks import check_type
from storekeeper.topology.store import Store

A = TypeVar("A")
K = TypeVar("K")
V = TypeVar("V")

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
