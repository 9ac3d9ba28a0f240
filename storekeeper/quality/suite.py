"""The expectations that a declared table becomes, as a suite of Great Expectations.

The suite checks a frame of the table's columns and of those that `storekeeper.quality.measures` adds; the list is
exact. The `notes` of an expectation say what it is for; verdicts and Data Docs show them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import great_expectations.expectations as gxe
from great_expectations import ExpectationSuite
from great_expectations.expectations import Expectation

from storekeeper.apps.checked_table import CheckedColumn, CheckedTable, Leaks
from storekeeper.apps.leaks import (
    ADDRESS,
    CODE_DIGITS,
    EMAIL,
    PRINTED_CARD,
    TEN_DIGITS,
    WRITTEN_NUMBER,
    long_number,
    python_pattern,
)
from storekeeper.quality.measures import COPIES, DISGUISED, condition_column, fell_column, usable_conditions

_FLOATS = frozenset({"float", "double"})


@dataclass(frozen=True, slots=True)
class CheckedFrame:
    """What a suite is for: the columns that a frame has, and how its engine matches texts. Added columns are among
    them. Only `usable` ones, those that are there with their declared type, are looked into: the others fail already.
    `regex` is a pattern for Java as the engine takes it.
    """

    columns: Collection[str]
    usable: frozenset[str]
    regex: Callable[[str], str]


def for_spark(pattern: str) -> str:
    """A pattern as Spark takes it."""
    return pattern


def for_pandas(pattern: str) -> str:
    """A pattern as Pandas takes it."""
    return python_pattern(pattern).pattern


def suite_of(table: CheckedTable, frame: CheckedFrame, growing: Sequence[str] = ()) -> ExpectationSuite:
    """The suite of a table for a frame. `growing` are the fields that only grow, of a store."""
    expectations = [*_about_columns(table, frame), *_about_rows(table, frame, growing)]
    return ExpectationSuite(name=table.name, expectations=expectations)


def _about_columns(table: CheckedTable, frame: CheckedFrame) -> Iterator[Expectation]:
    added = [name for name in frame.columns if name.startswith("__")]
    yield gxe.ExpectTableColumnsToMatchSet(
        column_set=[*(column.name for column in table.columns), *added],
        exact_match=True,
        notes="The columns are the declared ones.",
        meta={"rule": "columns"},
    )
    for column in table.columns:
        if column.name in frame.usable:
            yield from _about(column, frame.regex)


def _about(column: CheckedColumn, regex: Callable[[str], str]) -> Iterator[Expectation]:
    name = column.name
    if not column.nullable:
        yield gxe.ExpectColumnValuesToNotBeNull(
            column=name, notes=f"{name} is always there.", meta={"rule": "presence"}
        )
    if column.leaks in {Leaks.TEXT, Leaks.CODE}:
        number = TEN_DIGITS if column.leaks is Leaks.TEXT else code_number()
        for pattern, what in ((number, "a card or phone number"), (EMAIL, "an email address"),
                              (ADDRESS, "a postal address")):  # fmt: skip
            yield gxe.ExpectColumnValuesToNotMatchRegex(
                column=name, regex=regex(pattern), notes=f"{name} doesn't hold {what}.", meta={"rule": "masking"}
            )
    if column.least is not None or column.most is not None:
        rule = "masking" if column.leaks is Leaks.NUMBER else "values"
        # To Spark what is no number (NaN) is greater than every number.
        most = math.inf if column.most is None and column.sql_type in _FLOATS else column.most
        yield _between(name, column.least, most, f"{name} is {_range(column)}.", rule)
    if column.allowed:
        yield _allowed(column)


def code_number() -> str:
    """A card or phone number in a code."""
    return f"{long_number(CODE_DIGITS)}|{PRINTED_CARD}|{WRITTEN_NUMBER}"


def _range(column: CheckedColumn) -> str:
    if column.most is None:
        return f"at least {column.least}"
    return f"at most {column.most}" if column.least is None else f"from {column.least} to {column.most}"


def _allowed(column: CheckedColumn) -> Expectation:
    known = "|".join(map(str, column.allowed))
    if not column.any_case:
        return gxe.ExpectColumnValuesToBeInSet(
            column=column.name,
            value_set=list(column.allowed),
            notes=f"{column.name} is one of {known}.",
            meta={"rule": "values"},
        )
    return gxe.ExpectColumnValuesToMatchRegex(
        column=column.name,
        # A dollar sign would let a line break behind the value pass.
        regex=rf"(?i)^(?:{'|'.join(re.escape(str(value)) for value in column.allowed)})(?![\s\S])",
        notes=f"{column.name} is one of {known}, in any case of letters.",
        meta={"rule": "values"},
    )


def _about_rows(table: CheckedTable, frame: CheckedFrame, growing: Sequence[str]) -> Iterator[Expectation]:
    for number, condition in usable_conditions(table, set(frame.usable)):
        yield _between(condition_column(number), 1, 1, condition.meaning, "conditions")
    if COPIES in frame.columns:
        key = ", ".join(name for name in table.unique if name not in table.partition_by) or ", ".join(table.unique)
        yield _between(COPIES, 1, 1, f"Each row is there once, by {key}.", "uniqueness")
    if DISGUISED in frame.columns:
        notes = "No text decodes to a card or phone number or an address."
        yield _between(DISGUISED, None, 0, notes, "masking")
    for name in growing:
        yield _between(fell_column(name), None, 0, f"{name} is not less than in an earlier snapshot.", "only_grows")


def _between(column: str, least: float | None, most: float | None, notes: str, rule: str) -> Expectation:
    return gxe.ExpectColumnValuesToBeBetween(
        column=column, min_value=least, max_value=most, notes=notes, meta={"rule": rule}
    )
