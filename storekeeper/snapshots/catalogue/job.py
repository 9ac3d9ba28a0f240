"""The job that enters all tables in Spark's catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.clock import Clock
from storekeeper.engine.runtime.lease import job_lease
from storekeeper.engine.runtime.session import leased_session
from storekeeper.errors import ConfigurationError, InvalidArgumentError
from storekeeper.snapshots.catalogue.entry import entries_of
from storekeeper.snapshots.catalogue.registration import is_configured, quoted, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        AppRunningError: a table is being written.
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
