"""The gate of a store's snapshots: each is judged where it is, and readers can be pinned to the last good one.

A batch is one snapshot. Nothing is published: `storekeeper sql --at <store>=good` reads the newest version that passed
or was released. It needs no Spark: DuckDB reads the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from storekeeper.apps.checked_table import CheckedColumn, CheckedTable, Condition, WithTable, WithTopic
from storekeeper.apps.leaks import disguised_leak
from storekeeper.apps.registry import APPS
from storekeeper.apps.spec import StoreSpec, misfit
from storekeeper.clock import Clock
from storekeeper.generations.live import store_in
from storekeeper.locations import Location, reaching
from storekeeper.quality.errors import StagedTableError, wrong_condition
from storekeeper.quality.gate import Batch, PublishAs
from storekeeper.quality.measures import (
    COPIES,
    DISGUISED,
    DUCKDB_QUOTE,
    bucket_sql,
    condition_column,
    condition_sql,
    fell_column,
)
from storekeeper.quality.profile import drifted
from storekeeper.quality.reconciliation import Totals, compare, other_is_gone
from storekeeper.quality.resolution import ResolutionArchive, good_versions
from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.verdict import Outcome, Profile, Status, Verdict, VerdictArchive
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.columns import ROW_KEY
from storekeeper.snapshots.delta_log import delta_table, newest_manifest
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.parquet_files import opened_files
from storekeeper.snapshots.seal import SealedTable


def table_of(store: StoreSpec) -> CheckedTable:
    """The declaration of a store's snapshots, in the generation that `store` is of.

    A field must be there unless it is nullable, and is at least 0 if it is never negative. A declared column adds to
    that. What is declared for other rows than those of this generation is left out.
    """
    declared = next((table for table in APPS[store.app].tables if table.name == store.name), None)
    if declared is None or misfit(store, declared) is not None:
        declared = CheckedTable(store.name, ())
    columns = tuple(_column(item, declared.column(item.name)) for item in store.value_fields)
    return replace(declared, columns=columns)


def store_as_written(store: StoreSpec, manifest: SnapshotManifest) -> StoreSpec:
    """The store with the fields that a snapshot has columns of, and their types there.

    A schema may have got more fields since, and a column may be of a wider type than the schema's.

    Raises:
        StagedTableError: what is declared for the store is about a column that the snapshot doesn't have yet.
    """
    if not manifest.by_schema:
        return store
    written = replace(store, value_fields=tuple(_as_written(store, manifest)))
    declared = next((table for table in APPS[store.app].tables if table.name == store.name), None)
    if declared is not None and misfit(store, declared) is None and (why := misfit(written, declared)) is not None:
        msg = f"snapshot {manifest.delta_version} of {store.name} can't be checked as declared ({why}): take a new one"
        raise StagedTableError(msg)
    return written


def _as_written(store: StoreSpec, manifest: SnapshotManifest) -> Iterator[ValueField]:
    for item in store.value_fields:
        kind = manifest.columns.get(item.name)
        if kind is not None:
            is_text = kind == "string"
            yield replace(
                item,
                sql_type=kind,
                never_negative=item.never_negative and not is_text,
                only_grows=item.only_grows and not is_text,
            )


def growing_fields(store: StoreSpec, before: SnapshotManifest | None) -> list[str]:
    """The store's fields that only grow, without those that the earlier snapshot has no such column of."""
    growing = [item for item in store.value_fields if item.only_grows]
    if before is None or not before.by_schema:
        return [item.name for item in growing]
    return [item.name for item in growing if before.columns.get(item.name) == item.sql_type]


def _column(item: ValueField, declared: CheckedColumn | None) -> CheckedColumn:
    least: float | None = 0 if item.never_negative else None
    if declared is None:
        return CheckedColumn(item.name, item.sql_type, nullable=item.nullable, least=least)
    if declared.least is not None:
        least = declared.least if least is None else max(least, declared.least)
    return replace(declared, nullable=item.nullable and declared.nullable, least=least)


TakeSnapshot = Callable[[tuple[Outcome, ...], int, Profile], Verdict | None]
"""Decides by the outcomes, the number of rows and the profile of a snapshot."""


class SnapshotGate:
    """Decides on the snapshots of one store of one run directory. Hold its lease: one gate at a time."""

    def __init__(self, store: StoreSpec, settings: QualitySettings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._path = settings.delta_table(store.table_name)
        self._archive = VerdictArchive(settings.verdict_dir(store.name))
        self._resolutions = ResolutionArchive(settings.resolution_dir(store.name))

    def pending(self) -> Batch | None:
        """The newest snapshot, unless it was decided on; None if there is none. A recreated table is checked again.

        Raises:
            SnapshotDamagedError: the table isn't as it was sealed.
        """
        seal = SealedTable.of(self._settings, self._store.table_name).current()
        if seal is None or seal.manifest is None:
            return None
        version = seal.manifest.delta_version
        if version < self._archive.last_version():
            self._archive.forget()
            self._resolutions.forget()
        return None if version == self._archive.last_version() else Batch(version, version)

    def last_verdict(self) -> Verdict | None:
        """The newest verdict; None if there is none."""
        return self._archive.last()

    def decide(self, batch: Batch) -> Verdict:
        """Checks the snapshot.

        Raises:
            ValidationError: it couldn't be evaluated; nothing was decided.
            StagedTableError: the version can't be read any more.
        """
        verdicts: list[Verdict] = []

        def take(outcomes: tuple[Outcome, ...], rows: int, profile: Profile) -> Verdict:
            passed = all(outcome.passed for outcome in outcomes)
            status = Status.PASSED if passed else Status.QUARANTINED
            at_ms, version = self._clock.now_ms(), batch.last_version
            verdict = Verdict(self._store.name, status, version, version, rows, at_ms, outcomes, profile)
            self._archive.put(verdict)
            verdicts.append(verdict)
            return verdict

        self._check(batch, take, self._settings.data_docs_dir(self._store.name))
        return verdicts[0]

    def check_again(self, batch: Batch, publish_as: PublishAs) -> tuple[Outcome, ...]:
        """Checks a snapshot that was decided on before, leaving verdict and Data Docs as they are.

        Raises:
            ValidationError, StagedTableError: as `decide` does.
        """
        results: list[Outcome] = []

        def take(outcomes: tuple[Outcome, ...], rows: int, profile: Profile) -> None:
            del rows, profile
            results.extend(outcomes)
            publish_as(outcomes)

        self._check(batch, take, None)
        return tuple(results)

    def metadata_of(self, publisher: str) -> bytes | None:
        """None: a snapshot is never published, so a decision on it is kept in its file alone."""
        del publisher
        return None

    def _check(self, batch: Batch, take: TakeSnapshot, docs_dir: Path | None) -> None:
        # Great Expectations takes seconds to import: import it only for a batch.
        from storekeeper.quality.checkpoint import Afterwards, run_checkpoint  # noqa: PLC0415
        from storekeeper.quality.suite import CheckedFrame, for_pandas, suite_of  # noqa: PLC0415

        manifest = newest_manifest(self._path, before=batch.last_version + 1)
        if manifest is None or manifest.delta_version != batch.last_version:
            msg = f"{self._path} has no snapshot of version {batch.last_version} any more: decide on a newer one"
            raise StagedTableError(msg)
        store = store_as_written(store_in(manifest, self._store, self._settings), manifest)
        table, before = table_of(store), self._compared_with(manifest)
        growing = growing_fields(store, before)
        version_before = None if before is None else before.delta_version
        with SnapshotRows.opened(self._path, table, batch.last_version, version_before, growing) as rows:
            frame, profile = rows.measured(), rows.profile()
            beside = (
                *self._compared(rows, table),
                *drifted(self._archive, batch.first_version, profile),
            )
            checked = CheckedFrame(list(frame.columns), frozenset(c.name for c in table.columns), for_pandas)

            def decided(outcomes: tuple[Outcome, ...]) -> Verdict | None:
                return take(outcomes + beside, len(frame), profile)

            notify = None if docs_dir is None else table.notify
            run_checkpoint(frame, suite_of(table, checked, growing), Afterwards(decided, docs_dir, notify))

    def _compared_with(self, newest: SnapshotManifest) -> SnapshotManifest | None:
        """The snapshot to compare with for `only_grows`: the last good one before `newest`, or else the previous one.

        A good one that can't be read any more or has another changelog topic is left out. None: there is none, it is
        empty, or it has another changelog topic.
        """
        good = good_versions(self._archive, self._resolutions)
        earlier = self._readable(next((version for version in good if version < newest.delta_version), None))
        if earlier is None or earlier.changelog_topic != newest.changelog_topic:
            earlier = newest_manifest(self._path, before=newest.delta_version)
        alike = earlier is not None and earlier.row_count > 0 and earlier.changelog_topic == newest.changelog_topic
        return earlier if alike else None

    def _readable(self, version: int | None) -> SnapshotManifest | None:
        """The manifest of a version's snapshot; None if the log or a file of it is gone."""
        if version is None:
            return None
        manifest = newest_manifest(self._path, before=version + 1)
        with suppress(DeltaError, OSError, pa.ArrowException), reaching(self._path):
            for _ in opened_files(self._path, delta_table(self._path, version)):  # looks at each file's end
                pass
            return manifest if manifest is not None and manifest.delta_version == version else None
        return None

    def _compared(self, rows: SnapshotRows, table: CheckedTable) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for rule in table.reconcile if self._settings.quality_reconcile else ():
            if isinstance(rule, WithTable):
                expected = rows.totals_of_other(self._settings.delta_table(rule.table), rule)
                outcomes += other_is_gone(rule) if expected is None else compare(rule, expected, rows.totals(rule))
        return outcomes


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
            _read(session, "newest", path, version, [*ROW_KEY, *names])
            if before is None:
                fell = ["0"] * len(growing)
                joined = ""
            else:
                _read(session, "earlier", path, before, [*ROW_KEY, *growing])
                fell = [f'coalesce((newest."{name}" < earlier."{name}")::INT, 0)' for name in growing]
                joined = f"LEFT JOIN earlier USING ({', '.join(ROW_KEY)})"
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
        columns = [*rule.group_by, *filter(None, [rule.sum])]
        try:
            other = delta_table(path)
            if not set(columns) <= {item.name for item in other.schema().fields}:
                return None
            _take(self._session, "other", other, columns)
        except (DeltaError, OSError, pa.ArrowException):
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


def _read(session: duckdb.DuckDBPyConnection, name: str, path: Location, version: int, columns: list[str]) -> None:
    try:
        with reaching(path):
            _take(session, name, delta_table(path, version), columns)
    except (DeltaError, OSError, pa.ArrowException) as error:
        msg = f"version {version} of {path} can't be read any more ({error}): decide on a newer one"
        raise StagedTableError(msg) from error


def _take(session: duckdb.DuckDBPyConnection, name: str, table: DeltaTable, columns: list[str]) -> None:
    """Takes columns of a table, all without names, into a table of the session's own."""
    rows = pa.RecordBatchReader.from_stream(table.scan(columns=columns or None)).read_all()
    session.register("read", rows)
    session.execute(f'CREATE OR REPLACE TEMP TABLE "{name}" AS FROM "read"')
    session.unregister("read")


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names)
