"""What a store is now: which generation is live is told by the journal alone, and whoever looks after stores asks here.

Readers ask the alias that the journal's steps publish. Free of Spark.
"""

from __future__ import annotations

from spark_apps.generations.catalog import settings_of, stores_of
from spark_apps.generations.journal import Generation, Journal, JournalFile
from spark_apps.registry import APPS, store_named
from spark_apps.settings import AppSettings
from spark_apps.spec import StoreSpec
from state.snapshots.manifest import SnapshotManifest


def live_store(name: str, settings: AppSettings) -> tuple[StoreSpec, AppSettings]:
    """A store and the settings of its live generation, unless the environment names another.

    Raises:
        UnknownStoreError: no app keeps it.
    """
    store = store_named(name)
    journal = journal_of(store, settings)
    if journal is None or "generation" in settings.model_fields_set:
        return store, settings
    live = journal.live_generation
    return _as_in(store, live), settings_of(settings, live)


def store_in(manifest: SnapshotManifest, store: StoreSpec, settings: AppSettings) -> StoreSpec:
    """The store as it was in the generation that a snapshot is of."""
    journal = journal_of(store, settings)
    generation = None if journal is None else journal.generations.get(manifest.generation)
    return store if generation is None else _as_in(store_named(store.name), generation)


def journal_of(store: StoreSpec, settings: AppSettings) -> Journal | None:
    """The journal of the store's app; None if that has never changed."""
    return JournalFile(settings.run_dir, store.app).read()


def _as_in(store: StoreSpec, generation: Generation) -> StoreSpec:
    found = stores_of(APPS[store.app], generation)
    return next((item for item in found if item.name == store.name), store)
