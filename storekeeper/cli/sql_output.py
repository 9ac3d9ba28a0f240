"""A query's result as a list of rows, and the versions of tables that a user asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from storekeeper.cli.output import ListOutput, no_table_in, say, write_rows
from storekeeper.locations import Location
from storekeeper.snapshots.sql import list_tables, query

GOOD = "good"
"""Stands for the last version of a table that passed its checks, or was released."""


def run_sql(
    root: Location,
    sql: str,
    *,
    output: ListOutput,
    at_version: Mapping[str, int] | None = None,
    as_of_ms: int | None = None,
) -> None:
    """Runs `sql` as `storekeeper.snapshots.sql.query` does, with its errors, and writes the result.

    A name that occurs twice among the columns gets `_2`, `_3`, ... behind it.
    """
    result = query(root, sql, at_version=at_version, as_of_ms=as_of_ms)
    names = _distinct([column.name for column in result.columns])
    rows = (dict(zip(names, row, strict=True)) for row in result.rows)
    count = write_rows(rows, output, names, queried=True)
    if output is ListOutput.TABLE:
        say(f"{count} row" if count == 1 else f"{count} rows")
        if not list_tables(root):
            say(no_table_in(root))


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
            raise ValueError(
                f"{assignment!r} is not a table version: write <table>=<version>, such as rewards=3, or <table>={GOOD}"
            )
        number = last_good(name) if version == GOOD else int(version)
        if number is not None:
            versions[name] = number
    return versions


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
