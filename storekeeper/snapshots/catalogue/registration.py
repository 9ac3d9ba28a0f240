"""Entries of the Delta tables in Spark's catalogue, so that a user's own Spark finds them by name, with comments.

An entry is a name and a place: no data is moved. Comments are in the Delta log, where every reader of the table
finds them. Writing them is a commit that changes no row.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import structlog
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.clock import Clock
from storekeeper.engine.runtime.lease import job_lease
from storekeeper.engine.runtime.session import leased_session
from storekeeper.errors import ConfigurationError, InvalidArgumentError
from storekeeper.snapshots.catalogue.entry import Entry, entries_of, is_configured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = structlog.get_logger(__name__)


def try_to_register(spark: SparkSession, entry: Entry) -> None:
    """Registers a table for a job whose own work is done: a failure is logged, and its next run tries again."""
    try:
        register(spark, entry)
    except Exception as error:  # our error, Spark's, or a catalogue's Java error, wrapped by py4j
        reason = str(error).partition("\n")[0]
        _log.warning(
            "table_not_in_catalogue", table=entry.name, reason=reason, retry="storekeeper tables --register, or wait"
        )


def register(spark: SparkSession, entry: Entry) -> bool:
    """Enters a table in the current schema, and writes its comments. Hold its lease. Returns whether that was new.

    Raises:
        ConfigurationError: the catalogue has another table of that name, or doesn't take it.
        SnapshotDamagedError: the table isn't as it was sealed.
    """
    try:
        with nullcontext() if entry.sealed is None else entry.sealed.writing():
            is_new = not spark.catalog.tableExists(quoted(entry.name))
            if is_new:
                DeltaTable.create(spark).tableName(quoted(entry.name)).location(str(entry.path)).execute()
            _check_same_place(spark, entry)
            return any([is_new, _commented(spark, entry), _columns_commented(spark, entry)])
    except AnalysisException as error:
        first = str(error).partition("\n")[0]
        msg = f"Spark's catalogue doesn't take table {entry.name} ({first}): correct the catalogue, then repeat"
        raise ConfigurationError(msg) from error


def _check_same_place(spark: SparkSession, entry: Entry) -> None:
    theirs = _detail(DeltaTable.forName(spark, quoted(entry.name)))["location"]
    here = _detail(DeltaTable.forPath(spark, str(entry.path)))["location"]
    if theirs != here:
        msg = (
            f"the catalogue has a table {entry.name} at {theirs}, and ours is at {here}: drop that entry, or choose "
            "another schema with --schema"
        )
        raise ConfigurationError(msg)


def _commented(spark: SparkSession, entry: Entry) -> bool:
    if _detail(DeltaTable.forName(spark, quoted(entry.name)))["description"] == entry.meaning:
        return False
    spark.sql(f"COMMENT ON TABLE {quoted(entry.name)} IS {_literal(entry.meaning)}")
    return True


def _columns_commented(spark: SparkSession, entry: Entry) -> bool:
    """Writes the comments of columns that have another one, in one commit."""
    comments = {item.name: item.metadata.get("comment") for item in spark.table(quoted(entry.name)).schema.fields}
    due = {name: text for name, text in entry.columns.items() if name in comments and comments[name] != text}
    if due:
        changes = ", ".join(f"{quoted(name)} COMMENT {_literal(text)}" for name, text in due.items())
        spark.sql(f"ALTER TABLE {quoted(entry.name)} ALTER COLUMN {changes}")
    return bool(due)


def _detail(table: DeltaTable) -> dict[str, Any]:
    (row,) = table.detail().select("location", "description").collect()
    return {"location": row["location"], "description": row["description"]}


def quoted(name: str) -> str:
    """A name as SQL takes it."""
    return f"`{name.replace('`', '``')}`"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def register_tables(
    settings: AppSettings, stores: Iterable[StoreSpec], schema: str | None, clock: Clock
) -> dict[str, Any]:
    """Enters the tables that are there: snapshots of stores, and published tables. Repeating it changes nothing.

    Args:
        settings: where the tables are, and Spark's properties, which name the catalogue.
        stores: all stores, each in the live generation of its app.
        schema: the schema of the entries; None: the catalogue's default one.
        clock: measures time-outs.

    Returns:
        The names, in `tables`, and those that were new or got other comments, in `changed`.

    Raises:
        ConfigurationError: the catalogue ends with the session, has no such schema, or has another table of a name.
        InvalidArgumentError: no schema has such a name.
        AppRunningError: the leftover JVM of a dead holder can't be ended.
        TablesUnreachableError: the store of the tables doesn't answer.
    """
    _check_lasting(settings)
    if schema is not None:
        _check_name(schema)
    entries = list(entries_of(stores, settings))
    leases = [job_lease("catalogue", "register"), *(entry.lease for entry in entries)]
    with leased_session(leases, settings, clock) as spark:
        if schema is not None:
            _use(spark, schema)
        changed = [entry.name for entry in entries if register(spark, entry)]
    return {"tables": [entry.name for entry in entries], "changed": changed}


def _check_lasting(settings: AppSettings) -> None:
    """Refuses a catalogue that would be gone with its session."""
    if not is_configured(settings):
        msg = (
            "no catalogue is configured that outlives Spark's session: set in the table [spark] "
            'sql.catalogImplementation = "hive" and where the metastore is, or sql.defaultCatalog'
        )
        raise ConfigurationError(msg)


def _check_name(schema: str) -> None:
    if not all(map(str.strip, schema.split("."))):
        msg = f"{schema!r} can't be the name of a schema: name one of Spark's catalogue with --schema"
        raise InvalidArgumentError(msg)


def _use(spark: SparkSession, schema: str) -> None:
    try:
        spark.sql(f"USE {'.'.join(quoted(part) for part in schema.split('.'))}")
    except AnalysisException as error:
        msg = f"Spark's catalogue has no schema {schema!r}: make it there, or name another with --schema"
        raise ConfigurationError(msg) from error
