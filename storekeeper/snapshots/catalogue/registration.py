"""Entries of the Delta tables in Spark's catalogue, so that a user's own Spark finds them by name, with comments.

An entry is a name and a place: no data is moved. Comments are in the Delta log, where every reader of the table
finds them. Writing them is a commit that changes no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spark_properties import site_properties
from storekeeper.errors import ConfigurationError
from storekeeper.snapshots.catalogue.entry import Entry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARKS_OWN = "spark_catalog"

_log = structlog.get_logger(__name__)


def is_configured(settings: AppSettings) -> bool:
    """Whether Spark's properties name a catalogue that outlives Spark's session.

    Raises:
        ConfigurationError: Spark's own folder can't be used.
    """
    properties = {**site_properties(), **settings.spark}
    default = properties.get("spark.sql.defaultCatalog", _SPARKS_OWN)
    return default != _SPARKS_OWN or properties.get("spark.sql.catalogImplementation", "in-memory") != "in-memory"


def try_to_register(spark: SparkSession, entry: Entry) -> None:
    """Registers a table for a job whose own work is done: a failure is logged, and its next run tries again."""
    try:
        register(spark, entry)
    except Exception as error:  # our error, Spark's, or a catalogue's Java error, wrapped by py4j
        reason = str(error).partition("\n")[0]
        _log.warning("table_not_in_catalogue", table=entry.name, reason=reason, retry="storekeeper register, or wait")


def register(spark: SparkSession, entry: Entry) -> bool:
    """Enters a table in the current schema, and writes its comments. Hold its lease. Returns whether that was new.

    Raises:
        ConfigurationError: the catalogue has another table of that name, or doesn't take it.
    """
    try:
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
    there = _detail(DeltaTable.forName(spark, quoted(entry.name)))["location"]
    here = _detail(DeltaTable.forPath(spark, str(entry.path)))["location"]
    if there != here:
        msg = (
            f"the catalogue has a table {entry.name} at {there}, and ours is at {here}: drop that entry, or choose "
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
    found = {item.name: item.metadata.get("comment") for item in spark.table(quoted(entry.name)).schema.fields}
    due = {name: text for name, text in entry.columns.items() if name in found and found[name] != text}
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
