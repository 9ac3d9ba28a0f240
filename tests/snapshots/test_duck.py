"""Connections that share a database."""

from __future__ import annotations

import os
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from storekeeper.snapshots.duck import Scan, shared

ROWS = pa.table({"n": [1, 2]})


def test_connections_see_only_what_each_was_given() -> None:
    with shared() as one, shared() as other:
        one.register("rows", ROWS)
        assert one.sql("SELECT sum(n) FROM rows").fetchall() == [(3,)]
        with pytest.raises(duckdb.CatalogException):
            other.sql("FROM rows")
    with shared() as later, pytest.raises(duckdb.CatalogException):
        later.sql("FROM rows")


@pytest.mark.parametrize("sql", ["FROM read_csv('/etc/passwd')", "SET memory_limit = '9GB'", "SET TimeZone = 'CET'"])
def test_none_reaches_files_or_settings(sql: str) -> None:
    with shared() as connection, pytest.raises(duckdb.Error, match=r"disabled|locked"):
        connection.execute(sql)


def test_times_are_in_utc_and_memory_is_as_asked() -> None:
    with shared("8MB") as connection:
        settings = connection.sql("SELECT current_setting('TimeZone'), current_setting('memory_limit')").fetchall()
    assert settings == [("UTC", "7.6 MiB")]


def test_a_fork_has_a_database_of_its_own() -> None:
    with shared() as connection:
        connection.execute("CREATE TABLE of_the_parent AS SELECT 7 AS n")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with shared() as connection:
            tables = connection.sql("SELECT count(*) FROM duckdb_tables()").fetchall()
        os.write(writing, str(tables).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(reading, 100) == b"[(0,)]"
    with shared() as connection:
        connection.execute("DROP TABLE of_the_parent")


def test_a_query_opens_a_table_once_for_its_columns_and_once_for_its_rows() -> None:
    class Table:
        opened = 0

        def scan(self, **_: object) -> pa.RecordBatchReader:
            self.opened += 1
            return ROWS.to_reader()

    table: Any = Table()
    with shared() as connection:
        connection.register("rows", Scan(table))
        assert connection.sql("SELECT sum(n) FROM rows").fetchall() == [(3,)]
    assert table.opened <= 2
