"""A table as a catalogue shows it: its name, its place, and what it and its columns hold. Free of Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from storekeeper.apps.checked_table import CheckedColumn, CheckedTable
from storekeeper.apps.registry import APPS, gated_tables
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spark_properties import site_properties
from storekeeper.apps.spec import AppSpec, StoreSpec
from storekeeper.delta_files import is_table
from storekeeper.engine.runtime.lease import job_lease
from storekeeper.locations import Location
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.as_of import HISTORY
from storekeeper.snapshots.columns import PLACE_MEANINGS
from storekeeper.snapshots.gated_seal import GatedTable
from storekeeper.snapshots.history import CHANGE_MEANINGS
from storekeeper.snapshots.seal import SealedTable

_SPARKS_OWN = "spark_catalog"
_NO_LETTER = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class Entry:
    """A table as the catalogue shows it.

    Attributes:
        table: the table's name.
        path: where it is.
        meaning: what it holds, as a sentence.
        columns: what columns hold, by name; only those that there is a text for.
        lease: the lease of its writer.
        sealed: the table with its seal; None if it has none.
    """

    table: str
    path: Location
    meaning: str
    columns: Mapping[str, str]
    lease: str
    sealed: SealedTable | None = None

    @property
    def name(self) -> str:
        """Its name in the catalogue: a metastore knows letters, digits and underscores only."""
        return _NO_LETTER.sub("_", self.table)


def entries_of(stores: Iterable[StoreSpec], settings: AppSettings) -> Iterator[Entry]:
    """The entries of all tables that are there: snapshots and histories of these stores, and published tables."""
    kinds = (entry_of_store, entry_of_history)
    entries = [entry_of(store, APPS[store.app], settings) for store in stores for entry_of in kinds]
    entries += [entry_of_published(table, settings) for table in gated_tables().values()]
    return (entry for entry in entries if is_table(entry.path))


def entry_of_store(store: StoreSpec, app: AppSpec, settings: AppSettings) -> Entry:
    """The entry of the snapshots of a store, as one generation of its app declares it."""
    declared = next((table for table in app.tables if table.name == store.name), None)
    columns = PLACE_MEANINGS | _texts(declared.columns if declared else ()) | _texts(store.value_fields)
    meaning = f"Snapshots of store {store.name} of app {app.name}: {app.title}."
    sealed = SealedTable.of(settings, store.table_name)
    return Entry(store.name, sealed.path, meaning, columns, job_lease(store.name, "snapshot"), sealed)


def entry_of_history(store: StoreSpec, app: AppSpec, settings: AppSettings) -> Entry:
    """The entry of the history of a store."""
    current = entry_of_store(store, app, settings)
    meaning = f"Every change of store {store.name} of app {app.name}: {app.title}."
    columns = {**current.columns, **CHANGE_MEANINGS}
    sealed = SealedTable.of(settings, store.history_name)
    return Entry(current.table + HISTORY, sealed.path, meaning, columns, current.lease, sealed)


def entry_of_published(table: CheckedTable, settings: AppSettings) -> Entry:
    """The entry of a table that the quality gate publishes."""
    (app,) = (app for app in APPS.values() if table in app.gated_tables)
    meaning = f"What the quality gate has published of app {app.name}: {app.title}."
    columns = {name: text for name, text in _texts(table.columns).items() if name in table.published_columns}
    sealed = GatedTable.published(settings, table)
    return Entry(table.name, sealed.path, meaning, columns, job_lease(table.name, "quality"), sealed)


def _texts(columns: Iterable[CheckedColumn | ValueField]) -> dict[str, str]:
    return {column.name: column.meaning for column in columns if column.meaning}


def is_configured(settings: AppSettings) -> bool:
    """Whether Spark's properties name a catalogue that outlives Spark's session.

    Raises:
        ConfigurationError: Spark's own folder can't be used.
    """
    properties = {**site_properties(), **settings.spark}
    default = properties.get("spark.sql.defaultCatalog", _SPARKS_OWN)
    return default != _SPARKS_OWN or properties.get("spark.sql.catalogImplementation", "in-memory") != "in-memory"
