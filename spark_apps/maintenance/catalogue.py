"""Entries of the Delta tables in Spark's catalogue, so that a user's own Spark finds them by name, with comments.

An entry is a name and a place: no data is moved. Comments are in the Delta log, where every reader of the table
finds them. Writing them is a commit that changes no row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException

from spark_apps.checked_table import CheckedTable
from spark_apps.generations.live import live_store
from spark_apps.registry import APPS, gated_tables, stores
from spark_apps.runtime.lease import job_lease
from spark_apps.runtime.session import leased_session
from spark_apps.settings import AppSettings
from spark_apps.spark_properties import site_properties
from spark_apps.spec import StoreSpec
from state.clock import Clock
from state.errors import ConfigurationError, InvalidArgumentError
from state.locations import Location
from state.snapshots.columns import PLACE_MEANINGS
from state.snapshots.delta_log import is_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_LETTER = re.compile(r"[^A-Za-z0-9_]")
_SPARKS_OWN = "spark_catalog"


@dataclass(frozen=True, slots=True)
class Entry:
    """A table as the catalogue shows it.

    Attributes:
        table: the table's name.
        path: where it is.
        meaning: what it holds, as a sentence.
        columns: what columns hold, by name; only those that there is a text for.
        lease: the lease of its writer.
    """

    table: str
    path: Location
    meaning: str
    columns: Mapping[str, str]
    lease: str

    @property
    def name(self) -> str:
        """Its name in the catalogue: a metastore knows letters, digits and underscores only."""
        return _NO_LETTER.sub("_", self.table)


def register_tables(settings: AppSettings, schema: str | None, clock: Clock) -> dict[str, Any]:
    """Enters the tables that are there: snapshots of stores, and published tables. Repeating it changes nothing.

    Args:
        settings: where the tables are, and Spark's properties, which name the catalogue.
        schema: the schema of the entries; None: the catalogue's default one.
        clock: measures time-outs.

    Returns:
        The names, in `tables`, and those that were new or got other comments, in `changed`.

    Raises:
        ConfigurationError: the catalogue ends with the session, has no such schema, or has another table of a name.
        InvalidArgumentError: no schema has such a name.
        AppRunningError: a table is being written.
        TablesUnreachableError: the store of the tables doesn't answer.
    """
    _check_lasting({**site_properties(), **settings.spark})
    if schema is not None:
        _check_name(schema)
    entries = list(entries_of(settings))
    leases = [job_lease("catalogue", "register"), *(entry.lease for entry in entries)]
    with leased_session(leases, settings, clock) as spark:
        if schema is not None:
            _use(spark, schema)
        changed = [entry.name for entry in entries if register(spark, entry)]
    return {"tables": [entry.name for entry in entries], "changed": changed}


def entries_of(settings: AppSettings) -> Iterator[Entry]:
    """The entries of all tables that are there."""
    found = [_of_store(live_store(name, settings)[0], settings) for name in stores()]
    found += [_of_published(table, settings) for table in gated_tables().values()]
    return (entry for entry in found if is_table(entry.path))


def register(spark: SparkSession, entry: Entry) -> bool:
    """Enters a table in the current schema, and writes its comments. Hold its lease. Returns whether that was new.

    Raises:
        ConfigurationError: the catalogue has another table of that name, or doesn't take it.
    """
    try:
        is_new = not spark.catalog.tableExists(_quoted(entry.name))
        if is_new:
            DeltaTable.create(spark).tableName(_quoted(entry.name)).location(str(entry.path)).execute()
        _check_same_place(spark, entry)
        return any([is_new, _commented(spark, entry), _columns_commented(spark, entry)])
    except AnalysisException as error:
        first = str(error).partition("\n")[0]
        msg = f"Spark's catalogue doesn't take table {entry.name} ({first}): correct the catalogue, then repeat"
        raise ConfigurationError(msg) from error


def _of_store(store: StoreSpec, settings: AppSettings) -> Entry:
    declared = next((table for table in APPS[store.app].tables if table.name == store.name), None)
    columns = PLACE_MEANINGS | _meanings(declared) | {item.name: item.meaning for item in store.value_fields}
    meaning = f"Snapshots of store {store.name} of app {store.app}: {APPS[store.app].title}."
    return Entry(
        store.name, settings.delta_table(store.table_name), meaning, _said(columns), job_lease(store.name, "snapshot")
    )


def _of_published(table: CheckedTable, settings: AppSettings) -> Entry:
    (app,) = (app for app in APPS.values() if table in app.gated_tables)
    meaning = f"What the quality gate has published of app {app.name}: {app.title}."
    columns = {name: text for name, text in _meanings(table).items() if name in table.published_columns}
    return Entry(
        table.name, settings.delta_table(table.name), meaning, _said(columns), job_lease(table.name, "quality")
    )


def _meanings(table: CheckedTable | None) -> dict[str, str]:
    return {} if table is None else {column.name: column.meaning for column in table.columns}


def _said(columns: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in columns.items() if text}


def _check_lasting(properties: Mapping[str, str]) -> None:
    """Refuses a catalogue that would be gone with its session."""
    default = properties.get("spark.sql.defaultCatalog", _SPARKS_OWN)
    if default == _SPARKS_OWN and properties.get("spark.sql.catalogImplementation", "in-memory") == "in-memory":
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
        spark.sql(f"USE {'.'.join(_quoted(part) for part in schema.split('.'))}")
    except AnalysisException as error:
        msg = f"Spark's catalogue has no schema {schema!r}: make it there, or name another with --schema"
        raise ConfigurationError(msg) from error


def _check_same_place(spark: SparkSession, entry: Entry) -> None:
    there = _detail(DeltaTable.forName(spark, _quoted(entry.name)))["location"]
    here = _detail(DeltaTable.forPath(spark, str(entry.path)))["location"]
    if there != here:
        msg = (
            f"the catalogue has a table {entry.name} at {there}, and ours is at {here}: drop that entry, or choose "
            "another schema with --schema"
        )
        raise ConfigurationError(msg)


def _commented(spark: SparkSession, entry: Entry) -> bool:
    if _detail(DeltaTable.forName(spark, _quoted(entry.name)))["description"] == entry.meaning:
        return False
    spark.sql(f"COMMENT ON TABLE {_quoted(entry.name)} IS {_literal(entry.meaning)}")
    return True


def _columns_commented(spark: SparkSession, entry: Entry) -> bool:
    """Writes the comments of columns that have another one, in one commit."""
    found = {item.name: item.metadata.get("comment") for item in spark.table(_quoted(entry.name)).schema.fields}
    due = {name: text for name, text in entry.columns.items() if name in found and found[name] != text}
    if due:
        changes = ", ".join(f"{_quoted(name)} COMMENT {_literal(text)}" for name, text in due.items())
        spark.sql(f"ALTER TABLE {_quoted(entry.name)} ALTER COLUMN {changes}")
    return bool(due)


def _detail(table: DeltaTable) -> dict[str, Any]:
    (row,) = table.detail().select("location", "description").collect()
    return {"location": row["location"], "description": row["description"]}


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
