r"""A query's result for people and for programs.

For people a table, or lines for each row if it is too wide, binaries as UTF-8 text where they are text. For programs
one JSON object:

    {"columns": [{"name": "CustomerCardNo", "type": "VARCHAR"}, ...], "rows": [{"CustomerCardNo": "1", ...}, ...]}

Decimals are JSON numbers with all their digits, times ISO 8601, binaries hexadecimal with `\x` in front. A name that
occurs twice among the columns gets `_2`, `_3`, ... behind it.
"""

from __future__ import annotations

import csv
import datetime
import io
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import orjson
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from storekeeper.cli.output import ListOutput
from storekeeper.locations import Location
from storekeeper.snapshots.sql import QueryResult, list_tables, query

_ANY_WIDTH = 100_000
GOOD = "good"
"""Stands for the last version of a table that passed its checks, or was released."""


def run_sql(
    root: Location, sql: str, *, output: ListOutput, console: Console, at_version: Mapping[str, int] | None = None
) -> None:
    """Runs `sql` as `storekeeper.snapshots.sql.query` does, with its errors, and prints the result to `console`."""
    result = query(root, sql, at_version=at_version)
    match output:
        case ListOutput.JSON:
            console.out(to_json(result).decode(), highlight=False)
        case ListOutput.CSV:
            console.out(to_csv(result), highlight=False, end="")
        case _:
            _show(result, console)
            if not list_tables(root):
                console.print(Text(f"{root} holds no Delta table yet: the DAG snapshot_stores writes the first"))


def parse_versions(assignments: list[str], last_good: Callable[[str], int | None]) -> dict[str, int]:
    """Turns `["rewards=3", "points=good"]` into `{"rewards": 3, "points": 7}`.

    Args:
        assignments: what a user wrote.
        last_good: the last good version of a table; None if its newest one always is.

    Raises:
        ValueError: an item is neither `<table>=<version>` with a version of 0 or more, nor `<table>=good`.
    """
    versions = {}
    for assignment in assignments:
        name, separator, version = assignment.rpartition("=")
        if not (name and separator and (version.isdecimal() or version == GOOD)):
            msg = (
                f"{assignment!r} is not a table version: write <table>=<version>, such as rewards=3, or <table>={GOOD}"
            )
            raise ValueError(msg)
        number = last_good(name) if version == GOOD else int(version)
        if number is not None:
            versions[name] = number
    return versions


def to_json(result: QueryResult) -> bytes:
    """The result as one JSON object, as this module's description says."""
    names = _distinct([column.name for column in result.columns])
    return orjson.dumps(
        {
            "columns": [
                {"name": name, "type": column.type} for name, column in zip(names, result.columns, strict=True)
            ],
            "rows": [dict(zip(names, map(_to_jsonable, row), strict=True)) for row in result.rows],
        }
    )


def to_csv(result: QueryResult) -> str:
    """The result as CSV: a line of names, then a line for each row."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(_distinct([column.name for column in result.columns]))
    lines.writerows([_to_text(value) for value in row] for row in result.rows)
    return text.getvalue()


def to_table(result: QueryResult) -> Table:
    """The result as a rich table with the number of rows below."""
    count = len(result.rows)
    table = Table(caption=f"{count} row" if count == 1 else f"{count} rows", caption_justify="left")
    for column in result.columns:
        numeric = column.type.startswith(("DECIMAL", "DOUBLE", "FLOAT")) or column.type.endswith("INT")
        table.add_column(Text(column.name), justify="right" if numeric or column.type == "INTEGER" else "left")
    for row in result.rows:
        table.add_row(*(Text(_to_text(value)) for value in row))
    return table


def to_records(result: QueryResult) -> Table:
    """Each row as lines of a name and a value, for rows that are wider than the terminal."""
    table = Table.grid(padding=(0, 2))
    for number, row in enumerate(result.rows, 1):
        table.add_row(Text(f"row {number}", style="bold"), "")
        for column, value in zip(result.columns, row, strict=True):
            table.add_row(Text(column.name), Text(_to_text(value)))
    return table


def _show(result: QueryResult, console: Console) -> None:
    table = to_table(result)
    widest = Measurement.get(console, console.options.update(width=_ANY_WIDTH), table).maximum
    console.print(to_records(result) if result.rows and widest > console.width else table)


def _distinct(names: list[str]) -> list[str]:
    seen: Counter[str] = Counter()
    distinct = []
    for name in names:
        candidate = name
        while seen[candidate]:
            seen[name] += 1
            candidate = f"{name}_{seen[name]}"
        seen[candidate] += 1
        distinct.append(candidate)
    return distinct


def _to_jsonable(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): _to_jsonable(item) for key, item in value.items()}
        case list() | tuple():
            return [_to_jsonable(item) for item in value]
        case _:
            return _scalar_to_jsonable(value)


def _scalar_to_jsonable(value: Any) -> Any:
    match value:
        case bool() | None | str() | float() | datetime.date() | datetime.time():
            return value
        case int():
            return orjson.Fragment(str(value))  # may exceed 64 bits
        case Decimal():
            return orjson.Fragment(format(value, "f"))
        case bytes():
            return f"\\x{value.hex()}"
        case _:
            return str(value)


def _to_text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bytes():
            try:
                return _printable(value.decode())
            except UnicodeDecodeError:
                return f"\\x{value.hex()}"
        case _:
            return _printable(str(value))


def _printable(text: str) -> str:
    """Stored data must not steer the reader's terminal, so control characters are shown as escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
