"""The fields of a schema that become columns of snapshots, and how types of two versions go together.

What no column type fits is text in JSON: records, lists, maps, and unions of types that have no common one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce

from storekeeper.serdes.value_field import ValueField

JSON_TEXT = "string"
NUMBER_TYPES = ("bigint", "double", "decimal")
_COLUMN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_MOST_DIGITS = 38
_BIGINT_DIGITS = 19


def column_fields(fields: Iterable[ValueField]) -> tuple[ValueField, ...]:
    """The fields that can be columns.

    A column's name begins with a letter or a digit, and has letters, digits, `_` and `-`. Of names that differ in upper
    and lower case alone, the first one is a column: SQL can't tell them apart.
    """
    columns: dict[str, ValueField] = {}
    for item in fields:
        if _COLUMN_NAME.fullmatch(item.name):
            columns.setdefault(item.name.lower(), item)
    return tuple(columns.values())


def numbers_of(fields: Iterable[ValueField]) -> frozenset[str]:
    """The names of the fields that are numbers."""
    return frozenset(item.name for item in fields if item.sql_type.startswith(NUMBER_TYPES))


def decimal_type(precision: int, scale: int) -> str:
    """The SQL type of a decimal; that of text if it has more digits than a column."""
    return f"decimal({precision},{scale})" if 0 <= scale <= precision <= _MOST_DIGITS else JSON_TEXT


def common_type(types: Iterable[str]) -> str:
    """The SQL type that holds the values of all of these; that of text if there is no other."""
    return reduce(_wider, types)


def _wider(one: str, other: str) -> str:
    if one == other:
        return one
    if {one, other} == {"bigint", "double"}:
        return "double"
    sizes = [_digits(one), _digits(other)]
    if None in sizes:
        return JSON_TEXT
    whole, scale = (max(size[place] for size in sizes if size is not None) for place in (0, 1))
    return decimal_type(whole + scale, scale)


def _digits(sql_type: str) -> tuple[int, int] | None:
    """The digits before and after the point; None if the type isn't exact."""
    if sql_type == "bigint":
        return _BIGINT_DIGITS, 0
    match = _DECIMAL.fullmatch(sql_type)
    return None if match is None else (int(match[1]) - int(match[2]), int(match[2]))
