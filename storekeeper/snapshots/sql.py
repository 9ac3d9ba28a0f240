"""SQL over the Delta tables under a root, a local folder or one of a store, without a JVM and without downloads.

Each directory `<root>/<table>` with a `_delta_log` is a table of that name. DuckDB runs the query (see `duck`): one
SELECT-like statement a call. It sees one version of each table throughout, even when a name occurs twice in the query
and a writer commits in between.

`<store>_changes` is what became of the keys of a store, one row for each batch that changed a key: see `changes_sql`.
`<store>_changes_of(keys)` is the same for a list of keys. In a long history the other takes more memory than there is.

As of a time, a store's table has the rows that the store had after the last batch until then, whatever snapshots were
taken: they are folded from its history. Any other table has the version that it had.

Columns whose names begin with an underscore (`_partition`, `_offset`, `_value`, ...) are technical: they belong to the
platform, are part of `SELECT *`, and may change with a table's schema version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import duckdb
import pyarrow as pa
from deltalake.exceptions import DeltaError

from storekeeper.errors import InvalidArgumentError, NotExactError, StorageError
from storekeeper.locations import Location
from storekeeper.snapshots.as_of import (
    CHANGES,
    HISTORY,
    OF_CHANGES,
    changes_sql,
    changes_until,
    distinct_names,
    fold_sql,
    iso_ms,
    key_sql,
    quoted,
    row_columns,
    value_columns,
)
from storekeeper.snapshots.delta_log import commits, delta_table
from storekeeper.snapshots.duck import Column, QueryResult, Scan, close_off, opened, run, shared
from storekeeper.snapshots.history_reads import StoreHistory

__all__ = ["Column", "QueryResult", "list_tables", "query"]

_READING = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}
_OF_CATALOGUE = re.compile(r"show|describe\s*;?\s*$|information_schema|duckdb_|pg_|sqlite_master|pragma")
_UNKNOWN_TABLE = re.compile(r"Table with name (?P<name>.+?) does not exist")


def list_tables(root: Location) -> tuple[str, ...]:
    """The names of the Delta tables directly under `root`, sorted; empty if `root` doesn't exist."""
    if not root.is_dir():
        return ()
    return tuple(sorted(child.name for child in root.iterdir() if (child / "_delta_log").is_dir()))


def query(
    root: Location,
    sql: str,
    *,
    at_version: Mapping[str, int] | None = None,
    as_of_ms: int | None = None,
    tables: Mapping[str, pa.Table] | None = None,
) -> QueryResult:
    """Runs one reading statement (SELECT, WITH, FROM, SHOW TABLES, DESCRIBE, SUMMARIZE, EXPLAIN) in DuckDB's dialect.

    Args:
        root: the directory that holds the tables, one directory each.
        sql: exactly one statement. Times without a zone are shown in UTC.
        at_version: table name to Delta version, for reading the past; the others are read at their newest version.
        as_of_ms: the time of all tables that `at_version` doesn't name, epoch milliseconds; None for their newest
            version.
        tables: more tables by name, such as examples to join.

    Raises:
        InvalidArgumentError: the statement is wrong, more than one or not a reading one, names an unknown table (the
            message lists the known ones) or a version that a table doesn't have.
        NotExactError: it names a table whose rows at that time aren't known; the message has the nearest that are.
        StorageError: a table's files can't be read.
        TablesUnreachableError: the store of the tables doesn't answer.
    """
    _check_reads(sql)
    versions = dict(at_version or {})
    known = list_tables(root)
    for name in versions:
        if name not in known:
            raise InvalidArgumentError(_unknown_table(name, root, known))
    with opened() as connection:
        # A store's rows at a time need its history alone.
        folded = () if as_of_ms is None else (name.removesuffix(HISTORY) for name in known if name.endswith(HISTORY))
        names = list(dict.fromkeys((*known, *folded)))
        missing = _register_all(connection, root, _mentioned(names, sql) or names, versions, as_of_ms)
        for name, table in (tables or {}).items():
            connection.register(name, table)
        close_off(connection)
        try:
            return run(connection, sql)
        except duckdb.CatalogException as error:
            if (unknown := _UNKNOWN_TABLE.search(str(error))) is None:
                raise InvalidArgumentError(str(error)) from error
            name = unknown["name"]
            if name in missing:
                raise missing[name] from error
            raise InvalidArgumentError(_unknown_table(name, root, known)) from error


def _register_all(
    connection: duckdb.DuckDBPyConnection,
    root: Location,
    known: Sequence[str],
    versions: Mapping[str, int],
    as_of_ms: int | None,
) -> dict[str, Exception]:
    """Returns the tables that can't be read, with the reason."""
    register = _register if as_of_ms is None else partial(_register_as_of, at_ms=as_of_ms)
    missing: dict[str, Exception] = {}
    for name in known:
        try:
            if name in versions:
                _register_version(connection, root / name, versions[name])
            else:
                register(connection, root / name)
            if name.endswith(HISTORY):
                _register_changes(connection, root / name, known, as_of_ms)
        except (DeltaError, OSError, duckdb.Error) as error:
            missing[name] = StorageError(f"table {name} can't be read: {error}")
        except (NotExactError, StorageError) as error:
            missing[name] = error
    return missing


def _mentioned(tables: Iterable[str], sql: str) -> list[str]:
    """The tables that a statement may name: those whose names occur in its text. None if it may ask which there are.

    To open a table reads its log. A query of one of 12 stores with histories took 311 ms with all, 84 with its own.
    """
    text = sql.lower()
    if _OF_CATALOGUE.search(text):
        return []
    return [name for name in tables if name.lower() in text or _changes_of(name).lower() in text]


def _changes_of(history: str) -> str:
    """The name of the changes that a history has; that of any other table is its own."""
    return history.removesuffix(HISTORY) + CHANGES if history.endswith(HISTORY) else history


def _register(connection: duckdb.DuckDBPyConnection, path: Location) -> None:
    connection.register(path.name, Scan(delta_table(path)))


def _register_version(connection: duckdb.DuckDBPyConnection, path: Location, version: int) -> None:
    try:
        connection.register(path.name, Scan(delta_table(path, version)))
    except (DeltaError, OSError, duckdb.Error) as error:
        msg = f"table {path.name} has no readable version {version}: {_why_not(path, version) or error}"
        raise InvalidArgumentError(msg) from error


def _register_as_of(connection: duckdb.DuckDBPyConnection, path: Location, *, at_ms: int) -> None:
    """A store's rows and its history are those until that time, any other table is at its version of then."""
    table = path.name.removesuffix(HISTORY)
    history = StoreHistory.beside(path.with_name(table))
    if history is None:
        connection.register(path.name, Scan(delta_table(path, _version_at(path, at_ms))))
        return
    changes = history.as_of(at_ms)
    if path.name != table:
        connection.register(path.name, history.changes(changes_until(at_ms)))
    else:
        rows = connection.from_arrow(changes).query("changes", fold_sql("changes", row_columns(history.columns)))
        if rows is not None:  # as for every SELECT
            rows.create_view(path.name)


def _register_changes(
    connection: duckdb.DuckDBPyConnection, path: Location, known: Sequence[str], at_ms: int | None
) -> None:
    """What became of a store's keys, for joins with times: of those changes that its history is registered with."""
    table = path.name.removesuffix(HISTORY)
    history = None if table + CHANGES in known else StoreHistory.beside(path.with_name(table))
    if history is None:
        return
    eras = [first for first in history.coverage.eras if at_ms is None or first <= at_ms]
    columns, name, all_changes = (
        distinct_names(OF_CHANGES, value_columns(history.columns)),
        table + CHANGES,
        quoted(path.name),
    )
    of_keys = f"(FROM {all_changes} WHERE {key_sql(history.kind)} IN (SELECT encode(unnest(_keys))))"
    of_all, of_some = (changes_sql(changes, columns, eras, history.kind) for changes in (all_changes, of_keys))
    connection.execute(f"CREATE TEMP VIEW {quoted(name)} AS {of_all}")
    # DuckDB takes the keys out of a plain table, but not out of a view that groups. A parameter hides columns of its
    # name.
    connection.execute(f"CREATE TEMP MACRO {quoted(f'{name}_of')}(_keys) AS TABLE {of_some}")


def _version_at(path: Location, at_ms: int) -> int:
    """The version that a table had at a time."""
    earliest = None
    for commit in commits(path):
        earliest = commit.info.get("timestamp", earliest)
        if commit.manifest is not None:
            msg = (
                f"the rows of store {path.name} at {iso_ms(at_ms)} are not known: there is no history of it. "
                f"`storekeeper snapshot create {path.name}` begins one; `--at {path.name}=VERSION` reads a version"
            )
            raise NotExactError(msg)
        if isinstance(earliest, int) and earliest <= at_ms:
            return commit.version
    earlier_ones = "" if earliest is None else f": the earliest is of {iso_ms(earliest)}"
    msg = f"table {path.name} has no version as old as {iso_ms(at_ms)}{earlier_ones}"
    raise NotExactError(msg)


def _why_not(path: Location, version: int) -> str:
    """Says that a version isn't there yet; empty if that is not the reason."""
    try:
        newest = delta_table(path).version()
    except (DeltaError, OSError):
        return ""
    return f"its newest is {newest}" if version > newest else ""


def _check_reads(sql: str) -> None:
    try:
        with shared() as parser:
            kinds = [statement.type for statement in parser.extract_statements(sql)]
    except duckdb.Error as error:
        raise InvalidArgumentError(str(error)) from error
    if len(kinds) != 1 or kinds[0] not in _READING:
        msg = "pass exactly one statement that reads, such as SELECT, SHOW TABLES or DESCRIBE <table>"
        raise InvalidArgumentError(msg)


def _unknown_table(name: str, root: Location, known: tuple[str, ...]) -> str:
    advice = f"there are: {', '.join(known)}" if known else f"{root} holds no Delta table yet"
    return f"there is no table {name}; {advice}. A store's table comes with its first snapshot: {_FIRST_SNAPSHOT}"


_FIRST_SNAPSHOT = "run the DAG snapshot_stores, or `storekeeper snapshot create`"
