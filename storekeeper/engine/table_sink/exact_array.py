"""Arrow arrays that hold values as they were given. Arrow itself cuts some silently: 1.5 to 1, a time to its day."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from numbers import Number
from typing import Any

import pyarrow as pa

_FLOAT_OVERFLOW = 2.0**128 - 2.0**103
"""The least number that a column of 32 bits rounds to infinity."""
_Values = Sequence[Any]


def exact_array(values: _Values, kind: pa.DataType) -> pa.Array:
    """An array of these values. Columns of floating-point numbers round them, as is their nature.

    Raises:
        ValueError: the type can't hold a value as it is.
        pa.ArrowException, OverflowError, TypeError: the type takes no such value at all.
    """
    array = pa.array(values, kind)
    for is_kind, plain, is_kept in _CHECKS:
        # Nearly all columns have values of plain types alone: a look at the types costs little beside the conversion.
        if is_kind(kind) and not plain.issuperset(map(type, values)) and not all(map(is_kept, values)):
            raise ValueError(f"the type {kind} holds no such value as it is")
    return array


def _as_whole(value: Any) -> bool:
    return value is None or (isinstance(value, Number) and value % 1 == 0)  # type: ignore[operator]


def _as_date(value: Any) -> bool:
    if isinstance(value, datetime):
        return value == datetime.combine(value.date(), time(), value.tzinfo)
    return isinstance(value, date) or _as_whole(value)


def _as_time(value: Any) -> bool:
    if isinstance(value, datetime):
        return not getattr(value, "nanosecond", 0)  # times of pandas have it
    return _as_whole(value)


def _as_double(value: Any) -> bool:
    return not isinstance(value, bool)


def _as_float(value: Any) -> bool:
    return value is None or (_as_double(value) and not _FLOAT_OVERFLOW <= abs(float(value)) < math.inf)


_CHECKS: Sequence[tuple[Callable[[pa.DataType], bool], frozenset[type], Callable[[Any], bool]]] = (
    (pa.types.is_integer, frozenset({int, type(None)}), _as_whole),
    (pa.types.is_date, frozenset({date, type(None)}), _as_date),
    (pa.types.is_timestamp, frozenset({datetime, type(None)}), _as_time),
    (pa.types.is_float64, frozenset({float, int, type(None)}), _as_double),
    (pa.types.is_float32, frozenset({int, type(None)}), _as_float),
)
"""For a kind of column: the types of values that Arrow keeps or refuses, and whether it keeps a value of another."""
