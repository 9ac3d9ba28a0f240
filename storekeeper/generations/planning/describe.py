"""The running stores, from a run directory (snapshot manifests, journals, claims) and the broker's topics.

Only names, types and counts are described; rows are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import structlog
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from storekeeper.apps.errors import UnusableCheckpointError
from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.apps.topology_app import first_topic, generation_topic
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.clock import Clock
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.engine.runtime.topics import Topics
from storekeeper.errors import ConfigurationError, StateError
from storekeeper.generations.catalog import migration_named
from storekeeper.generations.changes.contract import BY_SCHEMA, AppTopology, Description, RunningStore
from storekeeper.generations.journal import FIRST_GENERATION, Journal, JournalFile
from storekeeper.locations import Location
from storekeeper.snapshots.columns import sql_types
from storekeeper.snapshots.delta_log import delta_table
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.seal import sealed_tables

_log = structlog.get_logger(__name__)


def describe(settings: AppSettings, clock: Clock) -> Description:
    """The running stores of a run directory: those with a snapshot, and those whose apps have started. If the broker
    doesn't answer, the partitions of the snapshots stay.
    """
    running: dict[str, RunningStore] = {}
    for path, manifest in _snapshots(settings):
        journal = JournalFile(settings.durable, manifest.app).read()
        live = 1 if journal is None else journal.live
        if manifest.generation == live:
            running[manifest.store] = _of_snapshot(path, manifest, journal)
    for store in (store for app in APPS.values() for store in app.stores):
        if store.name not in running and settings.checkpoint_dir(store.app).parent.is_dir():
            journal = JournalFile(settings.durable, store.app).read()
            running[store.name] = _of_start(store, journal, settings)
    return Description(clock.now_ms(), _with_partitions(running, settings), dict(_topologies(settings)))


def _topologies(settings: AppSettings) -> Iterator[tuple[str, AppTopology]]:
    """The internal stores and topics of apps that are topologies, as of their last starts."""
    for app in APPS.values():
        journal = JournalFile(settings.durable, app.name).read() if app.has_generations else None
        live = FIRST_GENERATION if journal is None else journal.live
        names = () if journal is None else journal.live_generation.migrations
        claim = _claim(app.name, live, settings)
        if claim is not None and app.describe is not None:
            yield app.name, AppTopology(app.name, live, names, claim.stores, claim.repartitions, claim.slots)


def _claim(app: str, generation: int, settings: AppSettings) -> CheckpointOwner | None:
    own = settings.in_generation(generation)
    try:
        return CheckpointOwner.read(own.checkpoint_dir(app))
    except UnusableCheckpointError as error:
        _log.warning("claim_not_read", app=app, error=str(error))
        return None


def _snapshots(settings: AppSettings) -> Iterator[tuple[Location, SnapshotManifest]]:
    for table in sealed_tables(settings):
        try:
            seal = table.current()
            if seal is not None and seal.manifest is not None:
                yield table.path, seal.manifest
        except (DeltaError, StateError, OSError) as error:
            _log.warning("table_not_read", table=table.path.name, error=str(error))


def _of_snapshot(path: Location, manifest: SnapshotManifest, journal: Journal | None) -> RunningStore:
    table, name = delta_table(path), manifest.store
    return RunningStore(
        store=name,
        app=manifest.app,
        topic=_first_topic(journal, name, first_topic(manifest.changelog_topic, manifest.generation)),
        kind=manifest.kind.value,
        score_field=manifest.score_field,
        generation=manifest.generation,
        migrations=_migrations(journal, name),
        fields={**_fields(table), **(BY_SCHEMA if manifest.by_schema else {})},
        partitions=len(manifest.changelog_offsets),
        keys=manifest.row_count,
        size_bytes=_size_bytes(table),
    )


def _migrations(journal: Journal | None, store: str) -> tuple[str, ...]:
    names = () if journal is None else journal.live_generation.migrations
    return tuple(name for name in names if _may_be_of(name, store))


def _may_be_of(migration: str, store: str) -> bool:
    """Whether a migration may be of a store. An unknown one may be of any store, so that the plan reports it."""
    try:
        return migration_named(migration).store == store
    except ConfigurationError:
        return True


def _of_start(store: StoreSpec, journal: Journal | None, settings: AppSettings) -> RunningStore:
    """A store without a snapshot, as of the last start of its app."""
    generation = FIRST_GENERATION if journal is None else journal.live
    claim = _claim(store.app, generation, settings)
    began = None if claim is None else claim.served.get(store.name)
    fields = None if began is None else {**began.fields, **(BY_SCHEMA if store.by_schema else {})}
    return RunningStore(
        store=store.name,
        app=store.app,
        topic=_first_topic(journal, store.name, store.changelog_topic),
        kind=store.kind.value if began is None else began.kind,
        score_field=store.score_field if began is None else began.score_field,
        generation=generation,
        migrations=_migrations(journal, store.name),
        fields=fields,
    )


def _first_topic(journal: Journal | None, store: str, topic: str) -> str:
    """As the first generation has it: `topic` of a store that the topology got after a generation was made."""
    return topic if journal is None else journal.generation(min(journal.generations)).topics.get(store, topic)


def _with_partitions(stores: dict[str, RunningStore], settings: AppSettings) -> dict[str, RunningStore]:
    topics = Topics(settings.kafka)
    running: dict[str, RunningStore] = {}
    for name, store in stores.items():
        journal = JournalFile(settings.durable, store.app).read()
        topic = store.topic
        if journal is not None:
            topic = journal.live_generation.topics.get(name) or generation_topic(store.topic, journal.live)
        try:
            partitions = store.partitions if topics.missing([topic]) else len(topics.partitions(topic))
        except (BrokerUnavailableError, StateError) as error:
            _log.warning("partitions_not_told", store=name, error=str(error))
            return stores
        running[name] = replace(store, partitions=partitions)
    return running


def _fields(table: DeltaTable) -> dict[str, str]:
    """The columns that come from values; the others begin with an underscore."""
    return {name: kind for name, kind in sql_types(table).items() if not name.startswith("_")}


def _size_bytes(table: DeltaTable) -> int:
    return sum(int(entry) for entry in pa.table(table.get_add_actions(flatten=True)).column("size_bytes").to_pylist())
