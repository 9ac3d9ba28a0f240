"""Stores and apps in their live generations. Only the journal decides which generation is live.

Maintenance jobs use this module. Readers follow the aliases that the steps publish. Free of Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storekeeper.apps.registry import APPS, store_named, stores
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec, StoreSpec
from storekeeper.apps.topology_app import described
from storekeeper.errors import ConfigurationError
from storekeeper.generations.catalog import describe_of, numbered, spec_of
from storekeeper.generations.journal import FIRST_GENERATION, GenerationState, Journal, JournalFile
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.topology.plan import Topology

if TYPE_CHECKING:
    # It loads the reader of Delta tables, which is an extra.
    from storekeeper.snapshots.history import HistoryManifest


def live_store(name: str, settings: AppSettings) -> tuple[StoreSpec, AppSettings]:
    """A store and the settings of its live generation, unless the environment names another.

    Raises:
        UnknownStoreError: no app keeps it.
    """
    store = store_named(name)
    if settings.fixes_generation:
        return _of(numbered(APPS[store.app], settings.generation), store), settings
    journal = journal_of(store, settings)
    if journal is None:
        return store, settings
    live = journal.live_generation
    return _of(spec_of(APPS[store.app], live), store), settings.in_generation(live.number)


def live_from(store: StoreSpec, settings: AppSettings) -> int:
    """The batch from which the generation of these settings is live without a break, for `take_snapshots`."""
    journal = journal_of(store, settings)
    generation = None if journal is None else journal.generations.get(settings.generation)
    return 0 if generation is None else generation.live_from


def live_stores(settings: AppSettings) -> tuple[StoreSpec, ...]:
    """All stores, each in the live generation of its app."""
    return tuple(live_store(name, settings)[0] for name in stores())


def live_topology(spec: AppSpec, settings: AppSettings) -> Topology:
    """The topology of an app's live generation.

    Raises:
        ConfigurationError: the app is not a topology.
        GenerationRefusedError: one of the generation's migrations doesn't exist any more.
    """
    if spec.describe is None:
        read, written = (", ".join(names(settings)) or "none" for names in (spec.sources, spec.sinks))
        msg = f"{spec.name} is not a topology; topics that it reads: {read}; that it writes: {written}"
        raise ConfigurationError(msg)
    journal = JournalFile(settings.durable, spec.name).read()
    describe = spec.describe if journal is None else describe_of(spec, journal.live_generation.migrations)
    return described(spec.name, describe, settings)


def topology_text(spec: AppSpec, topology: Topology) -> str:
    """A topology of an app as text, with the topic of the app's dead letters."""
    return "\n".join([topology.describe(), *(f"Dead letters: topic {topic}" for topic in spec.dead_letter_topics)])


def store_in(manifest: SnapshotManifest | HistoryManifest, store: StoreSpec, settings: AppSettings) -> StoreSpec:
    """The store as it was in the generation that a snapshot or a history is of."""
    journal = journal_of(store, settings)
    generation = None if journal is None else journal.generations.get(manifest.generation)
    return store if generation is None else _of(spec_of(APPS[store.app], generation), store_named(store.name))


def journal_of(store: StoreSpec, settings: AppSettings) -> Journal | None:
    """The journal of the store's app; None if that has never changed."""
    return JournalFile(settings.durable, store.app).read()


def _of(app: AppSpec, store: StoreSpec) -> StoreSpec:
    """The app's own spec of a store; `store` itself if the app has none."""
    return next((item for item in app.stores if item.name == store.name), store)


_THERE = frozenset({
    *(GenerationState.SEEDED, GenerationState.STARTED, GenerationState.VERIFIED),
    *(GenerationState.LIVE, GenerationState.STANDBY),
})  # fmt: skip
"""States of generations that have topics."""


def named_generations(spec: AppSpec, settings: AppSettings) -> tuple[tuple[AppSpec, AppSettings], ...]:
    """An app in each generation that has topics, with its settings: the live one first.

    It is the one that the setting `generation` fixes; else those of the journal; without a journal, the first.

    Raises:
        GenerationRefusedError: the journal is damaged, or names what the installed code doesn't have.
    """
    if settings.fixes_generation:
        return ((numbered(spec, settings.generation), settings),)
    journal = JournalFile(settings.durable, spec.name).read()
    if journal is None:
        return ((spec, settings.in_generation(FIRST_GENERATION)),)
    generations = sorted(
        (one for one in journal.generations.values() if one.state in _THERE),
        key=lambda one: (one.number != journal.live, one.number),
    )
    return tuple((spec_of(spec, one), settings.in_generation(one.number)) for one in generations)


def given_partitions(app: str, settings: AppSettings) -> int | None:
    """How many partitions the generation of these settings was given; None leaves them to its topology.

    Raises:
        GenerationRefusedError: the journal is damaged.
    """
    journal = None if settings.fixes_generation else JournalFile(settings.durable, app).read()
    generation = None if journal is None else journal.generations.get(settings.generation)
    return None if generation is None else generation.partitions
