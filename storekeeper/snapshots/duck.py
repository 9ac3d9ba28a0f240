"""DuckDB as a reader of Delta tables: it sees what it is given, and reaches nothing else.

No files, network, extensions or settings; bounded memory, and queries spill nothing to disk. `deltalake` reads the
tables for it, so deletion vectors and column mapping are honoured, and DuckDB's own Delta extension, a download, isn't
needed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import duckdb
from deltalake import DeltaTable

from storekeeper.errors import InvalidArgumentError, StorageError
from storekeeper.locations import Location, failure

_MEMORY_LIMIT = "1GB"
_THREADS = 2
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

    def dicts(self) -> list[dict[str, Any]]:
        """The rows by column. The names must be unique."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]


class Scan:
    """One version of a Delta table, or those of its rows that a predicate names, as a stream.

    It opens any number of times. Its columns are all, or those that are named.
    """

    def __init__(self, table: DeltaTable, predicate: str | None = None, columns: Sequence[str] | None = None) -> None:
        self._table = table
        self._predicate = predicate
        self._columns = None if columns is None else list(columns)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._opened().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The columns. Without this, DuckDB opens a stream whenever it wants to know them: three times a query."""
        return self._schema.__arrow_c_schema__()

    @cached_property
    def _schema(self) -> Any:
        return self._opened().schema

    def _opened(self) -> Any:
        return self._table.scan(columns=self._columns, predicate=self._predicate)


@contextmanager
def opened() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with an empty database in memory. Times without a zone are shown in UTC."""
    with duckdb.connect(":memory:", config=_CLOSED_AT_OPENING) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def shared(memory: str = _MEMORY_LIMIT) -> duckdb.DuckDBPyConnection:
    """A connection for statements of ours, which make nothing in the database: all those of a process share it."""
    return _database(memory, os.getpid()).cursor()


@cache
def _database(memory: str, _process: int) -> duckdb.DuckDBPyConnection:
    """To make one takes longer than to read a key. A fork lacks the threads of this one, and makes its own."""
    database = duckdb.connect(":memory:", config=_CLOSED_AT_OPENING | {"memory_limit": memory})
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    close_off(database)
    return database


@contextmanager
def folding(place: Location) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for a fold of a history: it spills to disk what its memory does not hold.

    Take what is to be written from tables of its own: `deltalake` can't read one table while it writes another. And
    Arrow's own reader of Delta tables aborts processes that end soon after it.

    Args:
        place: where the tables are that it is given.

    Raises:
        StorageError: something can't be read or kept.
        TablesUnreachableError: the store of the tables doesn't answer.
    """
    with tempfile.TemporaryDirectory() as scratch:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY_LIMIT,
            "preserve_insertion_order": False,
            "temp_directory": scratch,
        }
        with duckdb.connect(":memory:", config=config) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            try:
                yield connection
            except duckdb.Error as error:
                raise failure(place, error, f"the history at {place} can't be folded: {error}") from error


def close_off(connection: duckdb.DuckDBPyConnection) -> None:
    """Lets the connection read only what it has, from now on."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def run(connection: duckdb.DuckDBPyConnection, sql: str) -> QueryResult:
    """Runs a statement that reads.

    Raises:
        CatalogException: it names what there isn't.
        InvalidArgumentError: it can't be run.
        StorageError: a table's files can't be read.
    """
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
