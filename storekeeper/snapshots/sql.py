"""SQL over the Delta tables under a root, a local folder or one of a store, without a JVM and without downloads.

Each directory `<root>/<table>` with a `_delta_log` is a table of that name. DuckDB runs the query; `deltalake` reads
the table, so deletion vectors and column mapping are honoured and DuckDB's own Delta extension, a download, isn't
needed.

The session can only read what is registered: one SELECT-like statement a call, no access to files, network, extensions
or settings, bounded memory, nothing spilled to disk. It sees one version of each table throughout, even when a name
occurs twice in the query and a writer commits in between.

Columns whose names begin with an underscore (`_partition`, `_offset`, `_value`, ...) are technical: they belong to the
platform, are part of `SELECT *`, and may change with a table's schema version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from storekeeper.errors import InvalidArgumentError, StorageError
from storekeeper.locations import Location
from storekeeper.snapshots.delta_log import delta_table

_MEMORY_LIMIT = "1GB"
_THREADS = 2
_READING = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}
_UNKNOWN_TABLE = re.compile(r"Table with name (?P<name>.+?) does not exist")
_CLOSED_AT_OPENING: dict[str, str | bool | int | float | list[str]] = {
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "memory_limit": _MEMORY_LIMIT,
    "python_enable_replacements": "false",
    "temp_directory": "",
    "threads": str(_THREADS),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result: its name as the query gave it (not necessarily unique) and its SQL type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A result held in memory: `rows` has one tuple per row, with as many values as there are `columns`.

    Decimals arrive as `Decimal`, times as aware or naive `datetime` as the SQL type says, binaries as `bytes`.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]


class _Scan:
    """One version of a Delta table as a stream that can be opened any number of times."""

    def __init__(self, table: DeltaTable) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.scan().__arrow_c_stream__(requested_schema)


def list_tables(root: Location) -> tuple[str, ...]:
    """The names of the Delta tables directly under `root`, sorted; empty if `root` doesn't exist."""
    if not root.is_dir():
        return ()
    return tuple(sorted(child.name for child in root.iterdir() if (child / "_delta_log").is_dir()))


def query(root: Location, sql: str, *, at_version: Mapping[str, int] | None = None) -> QueryResult:
    """Runs one reading statement (SELECT, WITH, FROM, SHOW TABLES, DESCRIBE, SUMMARIZE, EXPLAIN) in DuckDB's dialect.

    Args:
        root: the directory that holds the tables, one directory each.
        sql: exactly one statement. Times without a zone are shown in UTC.
        at_version: table name to Delta version, for reading the past; the others are read at their newest version.

    Raises:
        InvalidArgumentError: the statement is wrong, more than one or not a reading one, names an unknown table (the
            message lists the known ones) or a version that a table doesn't have.
        StorageError: a table's files can't be read.
        TablesUnreachableError: the store of the tables doesn't answer.
    """
    _check_reads(sql)
    versions = dict(at_version or {})
    known = list_tables(root)
    for name in versions:
        if name not in known:
            raise InvalidArgumentError(_unknown_table(name, root, known))
    with duckdb.connect(":memory:", config=_CLOSED_AT_OPENING) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        unreadable = {
            name: reason for name in known if (reason := _register(connection, root / name, versions.get(name)))
        }
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            return _run(connection, sql)
        except duckdb.CatalogException as error:
            if (unknown := _UNKNOWN_TABLE.search(str(error))) is None:
                raise InvalidArgumentError(str(error)) from error
            name = unknown["name"]
            if name in unreadable:
                msg = f"table {name} can't be read: {unreadable[name]}"
                raise StorageError(msg) from error
            raise InvalidArgumentError(_unknown_table(name, root, known)) from error


def _register(connection: duckdb.DuckDBPyConnection, path: Location, version: int | None) -> str:
    """Returns why the table can't be read, which is no obstacle to a query that doesn't name it; empty if it can."""
    try:
        connection.register(path.name, _Scan(delta_table(path, version)))
    except (DeltaError, OSError, duckdb.Error) as error:
        if version is not None:
            msg = f"table {path.name} has no readable version {version}: {_why_not(path, version) or error}"
            raise InvalidArgumentError(msg) from error
        return str(error)
    return ""


def _why_not(path: Location, version: int) -> str:
    """Says that a version isn't there yet; empty if that is not the reason."""
    try:
        newest = delta_table(path).version()
    except (DeltaError, OSError):
        return ""
    return f"its newest is {newest}" if version > newest else ""


def _check_reads(sql: str) -> None:
    try:
        with duckdb.connect(":memory:") as parser:
            kinds = [statement.type for statement in parser.extract_statements(sql)]
    except duckdb.Error as error:
        raise InvalidArgumentError(str(error)) from error
    if len(kinds) != 1 or kinds[0] not in _READING:
        msg = "pass exactly one statement that reads, such as SELECT, SHOW TABLES or DESCRIBE <table>"
        raise InvalidArgumentError(msg)


def _run(connection: duckdb.DuckDBPyConnection, sql: str) -> QueryResult:
    try:
        relation = connection.sql(sql)
        columns = tuple(Column(name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True))
        table = relation.to_arrow_table()
    except duckdb.CatalogException:
        raise
    except duckdb.IOException as error:
        raise StorageError(str(error)) from error
    except duckdb.OutOfMemoryException as error:
        msg = f"the query needs more than {_MEMORY_LIMIT} of memory: select fewer columns or aggregate first"
        raise InvalidArgumentError(msg) from error
    except duckdb.Error as error:
        raise InvalidArgumentError(str(error)) from error
    return QueryResult(columns, tuple(zip(*(column.to_pylist() for column in table.columns), strict=True)))


def _unknown_table(name: str, root: Location, known: tuple[str, ...]) -> str:
    advice = f"there are: {', '.join(known)}" if known else f"{root} holds no Delta table yet"
    return f"there is no table {name}; {advice}. A store's table comes with its first snapshot: {_FIRST_SNAPSHOT}"


_FIRST_SNAPSHOT = "run the DAG snapshot_stores, or `storekeeper snapshot create`"
