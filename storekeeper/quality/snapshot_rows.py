"""The rows of a store's snapshot, read by DuckDB: with the columns of `measures`, as a profile, as totals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb
from deltalake.exceptions import DeltaError

from storekeeper.apps.checked_table import CheckedTable, Condition, WithTable, WithTopic
from storekeeper.apps.leaks import disguised_leak
from storekeeper.locations import Location, reaching
from storekeeper.quality.errors import StagedTableError, wrong_condition
from storekeeper.quality.measures import (
    COPIES,
    DISGUISED,
    DUCKDB_QUOTE,
    bucket_sql,
    condition_column,
    condition_sql,
    fell_column,
)
from storekeeper.quality.reconciliation import Totals
from storekeeper.quality.verdict import Profile
from storekeeper.snapshots.damage import delta_table

if TYPE_CHECKING:
    import pandas as pd


class SnapshotRows:
    """One version of a store's table, and the earlier one that it is compared with if there is one."""

    def __init__(self, session: duckdb.DuckDBPyConnection, table: CheckedTable) -> None:
        self._session = session
        self._table = table

    @staticmethod
    @contextmanager
    def opened(
        path: Location, table: CheckedTable, version: int, before: int | None, growing: list[str]
    ) -> Iterator[SnapshotRows]:
        """The rows while the block runs.

        Raises:
            StagedTableError: the version can't be read any more.
        """
        with duckdb.connect() as session:
            names = [column.name for column in table.columns]
            session.register("newest", _rows(path, version, ["_key", *names]))
            if before is None:
                fell = ["0"] * len(growing)
                joined = ""
            else:
                session.register("earlier", _rows(path, before, ["_key", *growing]))
                fell = [f'coalesce((newest."{name}" < earlier."{name}")::INT, 0)' for name in growing]
                joined = "LEFT JOIN earlier USING (_key)"
            selected = [f'newest."{name}"' for name in names]
            selected += [f'{sql} AS "{fell_column(name)}"' for sql, name in zip(fell, growing, strict=True)]
            columns = ", ".join(selected) or "1 AS __row"  # a store may have no fields
            # Every name is that of a declared column.
            session.execute(f"CREATE VIEW rows_there AS SELECT {columns} FROM newest {joined}")  # noqa: S608
            yield SnapshotRows(session, table)

    def measured(self) -> pd.DataFrame:
        """Every row, with a column for each check that the suite can't do on one column of a row.

        Raises:
            ValidationError: a condition isn't SQL over these columns.
        """
        added = [
            f'{self._checked_sql(condition)} AS "{condition_column(number)}"'
            for number, condition in enumerate(self._table.conditions, 1)
        ]
        if self._table.unique:
            added.append(f'count(*) OVER (PARTITION BY {_names(self._table.unique)}) AS "{COPIES}"')
        frame = self._session.execute(f"SELECT {', '.join(['*', *added])} FROM rows_there").df()  # noqa: S608
        if any(column.leaks for column in self._table.columns):
            texts = [column.name for column in self._table.columns if column.is_text]
            values = frame[texts].astype(object).where(frame[texts].notna(), None)
            frame[DISGUISED] = [int(disguised_leak(list(row))) for row in values.itertuples(index=False)]
        return frame

    def _checked_sql(self, condition: Condition) -> str:
        sql = condition_sql(condition, DUCKDB_QUOTE)
        try:
            self._session.execute(f"EXPLAIN SELECT {sql} FROM rows_there")  # noqa: S608 (an app's own declaration)
        except duckdb.Error as error:  # of the SQL alone: no row was read
            raise wrong_condition(self._table.name, condition.sql, error) from error
        return sql

    def profile(self) -> Profile:
        """Its profile by the columns that are declared with `drift`."""
        return {
            column.name: dict(
                self._session.execute(
                    f"SELECT {bucket_sql(column, DUCKDB_QUOTE)}, count(*) FROM rows_there GROUP BY 1"  # noqa: S608
                ).fetchall()
            )
            for column in self._table.columns
            if column.drift
        }

    def totals(self, rule: WithTable | WithTopic) -> Totals:
        """Its totals by the groups of a rule."""
        return self._totals("rows_there", rule)

    def totals_of_other(self, path: Location, rule: WithTable) -> Totals | None:
        """The totals of another table in the groups that these rows have; None if it isn't there or lacks a column."""
        wanted = [*rule.group_by, *filter(None, [rule.sum])]
        try:
            other = delta_table(path)
            if not set(wanted) <= {item.name for item in other.schema().fields}:
                return None
            self._session.register("other", other.to_pyarrow_table(columns=wanted or None))
        except (DeltaError, OSError):
            return None
        if not rule.group_by:
            return self._totals("other", rule)
        same = " AND ".join(f'other."{name}" IS NOT DISTINCT FROM rows_there."{name}"' for name in rule.group_by)
        return self._totals(f"other SEMI JOIN rows_there ON {same}", rule)

    def _totals(self, source: str, rule: WithTable | WithTopic) -> Totals:
        amount = "0" if rule.sum is None else f'sum("{rule.sum}")'
        selected = ", ".join(filter(None, [_names(rule.group_by), "count(*)", amount]))
        grouped = f"GROUP BY {_names(rule.group_by)}" if rule.group_by else ""
        return Totals.of(self._session.execute(f"SELECT {selected} FROM {source} {grouped}").fetchall())  # noqa: S608


def _rows(path: Location, version: int, columns: list[str]) -> Any:
    try:
        with reaching(path):
            return delta_table(path, version).to_pyarrow_table(columns=columns)
    except (DeltaError, OSError) as error:
        msg = f"version {version} of {path} can't be read any more ({error}): decide on a newer one"
        raise StagedTableError(msg) from error


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names)
