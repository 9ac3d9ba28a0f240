"""The aggregators that case files name, over JSON values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from storekeeper.topology.aggregator import Aggregator, count, reduction
from tests.conformance.adapter import UnsupportedCaseError

Named = Callable[[dict[str, Any]], Aggregator[Any, Any, Any]]


def total() -> Aggregator[Any, int, int]:
    """The sum of integers."""
    return Aggregator(
        initialize=lambda: 0,
        add=lambda _key, value, aggregate: aggregate + value,
        merge=lambda _key, one, two: one + two,
        subtract=lambda _key, value, aggregate: aggregate - value,
    )


def _concat(config: dict[str, Any]) -> Aggregator[Any, Any, Any]:
    """Kafka's TOSTRING_ADDER and TOSTRING_REMOVER; without a start its STRING_ADDER and STRING_REMOVER."""
    if "init" not in config:
        return reduction(lambda one, two: f"{one}+{two}", lambda one, two: f"{one}-{two}")
    return Aggregator(
        initialize=lambda: config["init"],
        add=lambda _key, value, aggregate: f"{aggregate}+{value}",
        merge=lambda _key, one, two: f"{one}+{two}",
        subtract=lambda _key, value, aggregate: f"{aggregate}-{value}",
    )


def _union(_config: dict[str, Any]) -> Aggregator[Any, Any, Any]:
    return reduction(lambda one, two: sorted({*one, *two}), lambda one, two: sorted({*one} - {*two}))


def _collect(_config: dict[str, Any]) -> Aggregator[Any, Any, Any]:
    return Aggregator(
        initialize=list,
        add=lambda _key, value, aggregate: [*aggregate, value],
        merge=lambda _key, one, two: [*one, *two],
    )


NAMED: dict[str, Named] = {
    "count": lambda _config: count(),
    "sum": lambda _config: total(),
    "concat": _concat,
    "set_union_difference": _union,
    "collect": _collect,
    "min": lambda _config: reduction(min),
    "max": lambda _config: reduction(max),
    "first": lambda _config: reduction(lambda one, _two: one),
    "last": lambda _config: reduction(lambda _one, two: two),
}


def named_aggregator(config: dict[str, Any]) -> Aggregator[Any, Any, Any]:
    """The aggregator of a case, a count if it names none.

    Raises:
        UnsupportedCaseError: nobody knows that name.
    """
    name = config.get("agg", "count")
    if name not in NAMED:
        msg = f"unknown aggregator {name}"
        raise UnsupportedCaseError(msg)
    return NAMED[name](config)
