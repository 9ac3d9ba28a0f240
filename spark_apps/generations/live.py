"""What a store is now: which generation is live is told by the journal alone, and whoever looks after stores asks here.

Readers ask the alias that the journal's steps publish. Free of Spark.
"""

from __future__ import annotations

from spark_apps.generations.catalog import settings_of, stores_of
from spark_apps.generations.journal import Generation, Journal, JournalFile
from spark_apps.registry import APPS, STORES, store_named
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec, StoreSpec
from state.errors import UnknownStoreError
from state.snapshots.manifest import SnapshotManifest


def live_store(name: str, settings: AppSettings) -> tuple[StoreSpec, AppSettings]:
    """A store and the settings of its live generation, unless the environment names another.

    Raises:
        UnknownStoreError: no app keeps it, or its rows are in other stores now, which the message names.
    """
    store = _own_store(name, settings)
    journal = journal_of(store, settings)
    if journal is None or "generation" in settings.model_fields_set:
        return store, settings
    live = journal.live_generation
    found = next((item for item in stores_of(_app_of(store), live) if item.name == name), None)
    if found is None:
        msg = f"the rows of store {name} are in {', '.join(_in_place_of(store, live))} now: name one of those"
        raise UnknownStoreError(msg)
    return found, settings_of(settings, live)


def live_stores(name: str, settings: AppSettings) -> list[str]:
    """The stores that now stand in the place of one: itself, unless it was split or merged. Raises as `live_store`."""
    store = _own_store(name, settings)
    journal = journal_of(store, settings)
    if journal is None or "generation" in settings.model_fields_set:
        return [name]
    live = journal.live_generation
    return [name] if name in live.changelogs else _in_place_of(store, live)


def store_in(manifest: SnapshotManifest, store: StoreSpec, settings: AppSettings) -> StoreSpec:
    """The store as it was in the generation that a snapshot is of."""
    journal = journal_of(store, settings)
    generation = None if journal is None else journal.generations.get(manifest.generation)
    if generation is None:
        return store
    there = stores_of(_app_of(_own_store(store.name, settings)), generation)
    return next((item for item in there if item.name == store.name), store)


def journal_of(store: StoreSpec, settings: AppSettings) -> Journal | None:
    """The journal of the store's app; None if that has never changed."""
    return JournalFile(settings.run_dir, store.app).read()


def _own_store(name: str, settings: AppSettings) -> StoreSpec:
    """The store as its app declares it: the one of that name, or the one that it is or was made of in a generation."""
    if name not in STORES:
        for app in APPS.values():
            journal = JournalFile(settings.run_dir, app.name).read() if app.has_generations else None
            if journal is not None and name in journal.every_store:
                return store_named(journal.live_generation.own_store(name))
    return store_named(name)


def _app_of(store: StoreSpec) -> AppSpec:
    return APPS[store.app]


def _in_place_of(store: StoreSpec, generation: Generation) -> list[str]:
    """The stores of a generation that the rows of an app's own one are in."""
    return [name for name in generation.changelogs if generation.own_store(name) == store.name]
