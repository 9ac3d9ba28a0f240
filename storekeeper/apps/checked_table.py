"""What the rows of a Delta table must be, declared beside the app that writes it.

A table of its own is gated: the app appends to `<name>_staged`, and the quality gate publishes what passes to `<name>`.
A table of the name of one of the app's stores holds that store's snapshots, which are checked where they are.
Free of Spark and of Great Expectations: commands without either import specs for their names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from string import Formatter
from typing import Any

from storekeeper.apps.settings import AppSettings
from storekeeper.errors import ConfigurationError
from storekeeper.names import checked_name
from storekeeper.schemas.sql_types import decimal_size

_COLUMN = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*")
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_NUMBERS = _WHOLE | {"float", "double"}

TopicRow = Callable[[bytes | None, bytes | None, AppSettings], Mapping[str, Any] | None]
"""The columns of the row that a record with this key and value becomes; None if it becomes none."""
Notify = Callable[[Mapping[str, Any]], None]
"""Takes a new verdict, as the JSON types of its file."""


class Leaks(StrEnum):
    """What kind of values a column has, which decides what is searched for as a leak of personal data.

    TEXT is free text: ten digits are a leak. CODE is made of digits: a long number that stands alone is a leak. Email
    and postal addresses are leaks in both. NUMBER has a range that keeps card and phone numbers out.
    """

    TEXT = "text"
    CODE = "code"
    NUMBER = "number"


@dataclass(frozen=True, slots=True)
class CheckedColumn:
    """A column, and what its values must be.

    Attributes:
        name: its name. One that begins with an underscore is technical: it is checked, and never published.
        sql_type: its Spark SQL type.
        nullable: whether a value may be null.
        least: the least number that is allowed, inclusive.
        most: the greatest number that is allowed, inclusive.
        allowed: the only values that are allowed; any value if it is empty.
        any_case: whether these are allowed in any case of letters.
        leaks: what is searched for as personal data. None: nothing is.
        drift: whether its values must be distributed as in the good batches before: numbers by order of magnitude,
            texts by the allowed values.
        meaning: what it holds, as a sentence for the catalogue.
    """

    name: str
    sql_type: str
    nullable: bool = False
    least: float | None = None
    most: float | None = None
    allowed: tuple[str | int, ...] = ()
    any_case: bool = False
    leaks: Leaks | None = None
    drift: bool = False
    meaning: str = ""

    @property
    def is_text(self) -> bool:
        """Whether its values are texts."""
        return self.sql_type == "string"

    @property
    def is_whole(self) -> bool:
        """Whether its values are whole numbers."""
        return self.sql_type in _WHOLE

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers."""
        return self.sql_type in _NUMBERS or self.is_decimal

    @property
    def is_decimal(self) -> bool:
        """Whether its values are decimals."""
        return self.sql_type.startswith("decimal")

    def mistakes(self) -> Iterable[str]:
        """What is wrong with the declaration, one sentence's end each."""
        if not _COLUMN.fullmatch(self.name):
            yield "can't name a column: use letters, digits and underscores, and don't begin with two underscores"
        if " " in self.sql_type:
            yield f"has the type {self.sql_type}: write it without blanks"
        if self.sql_type != "date":
            try:
                decimal_size(self.sql_type)
            except ConfigurationError as error:
                yield f"has a type that a table can't have ({error}, or date)"
        yield from self._mistakes_about_values()
        yield from self._mistakes_about_leaks()
        if self.drift and any(mark in str(value) for value in self.allowed for mark in "'\\"):
            yield "has drift, and an allowed value with a quote or backslash, which can't be counted"
        if self.drift and not (self.is_number or self.allowed or self.sql_type == "boolean"):
            yield "has drift, and is neither a number nor has it allowed values to count"

    def _mistakes_about_values(self) -> Iterable[str]:
        ranged = (self.least, self.most) != (None, None)
        if ranged and not self.is_number:
            yield f"has a range and is a {self.sql_type}: only numbers have ranges"
        if self.least is not None and self.most is not None and self.least > self.most:
            yield f"has a range from {self.least} to {self.most}, which holds nothing"
        expected: type = str if self.is_text else int
        if self.allowed and not (self.is_text or self.is_whole):
            yield f"has allowed values and is a {self.sql_type}: only texts and whole numbers have them"
        elif not all(type(value) is expected for value in self.allowed):
            yield f"has an allowed value that is not a {self.sql_type}"
        if self.any_case and not (self.allowed and self.is_text):
            yield "has any_case, which is about allowed texts, and has none"

    def _mistakes_about_leaks(self) -> Iterable[str]:
        if self.leaks in {Leaks.TEXT, Leaks.CODE} and not self.is_text:
            yield f"has leaks={self.leaks.name} and is a {self.sql_type}: use it for a string"
        if self.leaks is Leaks.NUMBER and (not self.is_number or self.least is None or self.most is None):
            yield "has leaks=NUMBER, which needs a number's type and both least and most"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that every row must meet.

    Attributes:
        meaning: what it says, as a sentence. Verdicts and Data Docs show it.
        sql: SQL that both Spark and DuckDB know, with columns in braces: `{Price} * {Qty} = {Total}`. A row for which
            it is null meets it.

    Raises:
        ConfigurationError: a brace is alone.
    """

    meaning: str
    sql: str

    def __post_init__(self) -> None:
        try:
            _ = self.columns
        except ValueError as error:
            msg = f"condition {self.sql!r} has a brace that is alone ({error}): write columns in braces, as {{Price}}"
            raise ConfigurationError(msg) from error

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names."""
        return tuple(name for _, name, _, _ in Formatter().parse(self.sql) if name is not None)


@dataclass(frozen=True, slots=True)
class WithTopic:
    """Each batch has exactly the rows of the records that it was made from, by number and sum in each group.

    The records are read again from their topic. Each commit to the staged table says which ones it reaches to, in its
    user metadata: see `storekeeper.apps.table_progress`.

    Attributes:
        topic: the topic.
        row: the columns, of those below, of the row that a record becomes. `_partition` is added to them.
        group_by: the columns that group rows.
        sum: the column that is summed up, a whole number or a decimal; None if rows are only counted.
    """

    topic: str
    row: TopicRow
    group_by: tuple[str, ...] = ()
    sum: str | None = None

    @property
    def other(self) -> str:
        """What rows are compared with, in words."""
        return f"topic {self.topic}"


@dataclass(frozen=True, slots=True)
class WithTable:
    """What is published, with the batch, has as many rows and the same sum as another table, for each of its groups.

    Only groups that the batch has rows of are compared. For a store the rows of its snapshot are compared.

    Attributes:
        table: the Delta table, of the same run directory, in its newest version. It has the columns below too.
        group_by: the columns that group rows, such as the day.
        sum: the column that is summed up, a whole number or a decimal; None if rows are only counted.
    """

    table: str
    group_by: tuple[str, ...] = ()
    sum: str | None = None

    @property
    def other(self) -> str:
        """What rows are compared with, in words."""
        return f"table {self.table}"


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """A table, and what its rows must be.

    Attributes:
        name: the published table; or the store whose snapshots are checked.
        columns: all columns of the staged table. For a store those that it has more to say about than the store's own
            fields: each has the field's name and type.
        unique: the columns that a row is identified by, also among earlier batches. Name the columns of `partition_by`
            too, if they are always the same for one row: then only these partitions are searched for copies.
        partition_by: the columns that the published table is partitioned by.
        conditions: conditions on each row.
        reconcile: what batches are compared with.
        notify: is called with each new verdict. A failure of it is logged, and changes no verdict.

    Raises:
        ConfigurationError: the declaration contradicts itself. The message names the table and the column.
    """

    name: str
    columns: tuple[CheckedColumn, ...]
    unique: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    reconcile: tuple[WithTopic | WithTable, ...] = ()
    notify: Notify | None = None

    def __post_init__(self) -> None:
        checked_name(self.name)
        mistakes = [f"column {column.name} {mistake}" for column in self.columns for mistake in column.mistakes()]
        mistakes += self._repeated()
        mistakes += [f"{where} names column {name}, which isn't declared" for where, name in self._unknown()]
        mistakes += self._wrong_sums()
        if mistakes:
            raise ConfigurationError(f"the declaration of table {self.name} is wrong: {'; '.join(mistakes)}")

    @property
    def staged_name(self) -> str:
        """The table that the app appends to."""
        return f"{self.name}_staged"

    @property
    def published_columns(self) -> tuple[str, ...]:
        """The columns of the published table: those that aren't technical."""
        return tuple(column.name for column in self.columns if not column.name.startswith("_"))

    def column(self, name: str) -> CheckedColumn | None:
        """The column of that name; None if it has none."""
        return next((column for column in self.columns if column.name == name), None)

    def _repeated(self) -> list[str]:
        counts = Counter(
            column.name.lower() for column in self.columns
        )  # Spark takes upper and lower case for the same
        return [f"column {name} is declared {count} times" for name, count in counts.items() if count > 1]

    def _named(self) -> Iterable[tuple[str, str]]:
        """Where columns are named, and their names."""
        yield from (("unique", name) for name in self.unique)
        yield from (("partition_by", name) for name in self.partition_by)
        yield from ((f"condition {each.sql!r}", name) for each in self.conditions for name in each.columns)
        for each in self.reconcile:
            where = f"reconcile with {each.other}"
            yield from ((where, name) for name in (*each.group_by, *filter(None, [each.sum])))

    def _unknown(self) -> list[tuple[str, str]]:
        known = {column.name for column in self.columns}
        return [(where, name) for where, name in self._named() if name not in known]

    def _wrong_sums(self) -> list[str]:
        sums = ((each, self.column(each.sum)) for each in self.reconcile if each.sum is not None)
        return [
            f"reconcile with {each.other} sums up {column.name}, a {column.sql_type}: use a whole number or a decimal"
            for each, column in sums
            if column is not None and not (column.is_whole or column.is_decimal)
        ]
