"""Taking a snapshot of a store: its history goes on to the end of a batch, and its table is the fold of that."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec, StoreSpec
from storekeeper.changelog.scan import Changelog
from storekeeper.clock import Clock
from storekeeper.delta_files import is_table
from storekeeper.engine.markers import markers_after
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint, CommittedBatch, planned_batches
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.engine.runtime.lease import job_lease, jobs_held
from storekeeper.engine.runtime.topics import Topics, await_topics
from storekeeper.errors import SnapshotDamagedError, StateError
from storekeeper.kafka.connection import Kafka
from storekeeper.names import markers_topic
from storekeeper.program import ExitCode, exit_code_of
from storekeeper.schemas.bound import value_subject
from storekeeper.snapshots.append import Appending
from storekeeper.snapshots.catalogue.entry import entry_of_history, entry_of_store, is_configured
from storekeeper.snapshots.columns import values_of
from storekeeper.snapshots.fold import Current
from storekeeper.snapshots.history import TaskProgress
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.seal import SealedTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DUE_MS = 55 * 60_000
"""A table is due once an hour. The runs of a schedule begin some minutes early or late."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SnapshotSummary:
    """What a run did. `committed` is False if the table was not written; `manifest` is then the previous one.

    `changed_keys` counts keys that were written or deleted. `duration_ms` counts from the beginning of the run. `due`
    is False if only the history went on, as the table's turn is later.
    """

    manifest: SnapshotManifest
    committed: bool
    changed_keys: int
    duration_ms: int
    due: bool = True

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON types: the manifest's fields and those of this class."""
        own = {"committed": self.committed, "changed_keys": self.changed_keys, "duration_ms": self.duration_ms}
        return self.manifest.as_dict() | own | {"due": self.due}


def take_snapshots(
    stores: Sequence[StoreSpec], settings: AppSettings, clock: Clock, *, live_from: int, when_due: bool = False
) -> list[SnapshotSummary]:
    """Updates the Delta tables of an app's stores to its last committed batch, the same for all of them.

    Safe to run again after any crash. A store that fails doesn't keep the others from their snapshots. Their errors
    are logged, and the one that a retry can't mend is raised, if there is one.

    Args:
        stores: the stores, in the live generation of their app.
        settings: those of that generation.
        clock: the time.
        live_from: the batch from which that generation is live without a break.
        when_due: histories go on, and tables are written only if one of them is behind by most of an hour.

    Raises:
        BrokerUnavailableError, AppRunningError, SchemaRegistryUnavailableError: it can't run now.
        OpenTransactionError: a transaction stays open and may hide records of the batch.
        ConfigurationError: a changelog topic or the jars are missing.
        ChangelogError: a changelog doesn't fit its table, or isn't what the app writes.
        SnapshotDamagedError: a table isn't as its last snapshot left it; nothing was written to it.
    """
    started_s = clock.monotonic_s()
    topics = Topics(settings.kafka)
    changelogs = [store.changelog_topic for store in stores]
    await_topics(topics, changelogs, clock=clock, wait=time.sleep)
    with _held([job_lease(store.name, "snapshot") for store in stores], settings, clock) as spark:
        # The histories of an app that is idle end at this time: the same for all of its stores.
        app, now_ms = stores[0].app, clock.now_ms()
        checkpoint = BatchCheckpoint(settings.checkpoint_dir(app))
        batch = CommittedBatch.of(checkpoint, settings.generation)
        progress = {} if batch is None else progress_after(settings.kafka, checkpoint, app, batch)
        # Together: SQL joins the newest versions of an app's tables.
        due = not when_due or any(is_due(store, settings, now_ms) for store in stores)

        def taken(store: StoreSpec) -> SnapshotSummary:
            run = Snapshot(settings, store, APPS[store.app], now_ms=now_ms, live_from=live_from)
            manifest, changed_keys = run.take(batch, progress, fold=due)
            if spark is not None:
                from storekeeper.snapshots.catalogue.registration import try_to_register  # noqa: PLC0415 (loads Spark)

                for entry in run.entries:
                    if is_table(entry.path):  # an app without a batch has no history; Spark would make an empty one
                        try_to_register(spark, entry)
            duration_ms = round((clock.monotonic_s() - started_s) * 1000)
            return SnapshotSummary(manifest, changed_keys is not None, changed_keys or 0, duration_ms, due)

        return each_taken(stores, taken)


def is_due(store: StoreSpec, settings: AppSettings, now_ms: int) -> bool:
    """Whether a store's table is behind by most of an hour, or is of another changelog; also if its seal is damaged."""
    with suppress(SnapshotDamagedError):
        seal = SealedTable.of(settings, store.table_name).read()
        manifest = None if seal is None else seal.manifest
        if manifest is not None and manifest.changelog_topic == store.changelog_topic:
            return not 0 <= now_ms - manifest.batch_ms < _DUE_MS  # a clock that was ahead is put right
    return True


def each_taken(stores: Sequence[StoreSpec], take: Callable[[StoreSpec], SnapshotSummary]) -> list[SnapshotSummary]:
    """Takes the snapshot of each store, also after one that fails.

    Raises:
        StateError: one of them failed. If several did, an error that a retry can't mend is raised in preference.
    """
    summaries: list[SnapshotSummary] = []
    errors: list[StateError] = []
    for store in stores:
        try:
            summaries.append(take(store))
        except StateError as error:
            _log.error("snapshot_failed", store=store.name, error=str(error))
            errors.append(error)
    if errors:
        raise next((error for error in errors if exit_code_of(error) is not ExitCode.TRY_AGAIN), errors[0])
    return summaries


@contextmanager
def _held(names: Sequence[str], settings: AppSettings, clock: Clock) -> Iterator[SparkSession | None]:
    """Holds leases. With a session of Spark where a catalogue of its own is configured: nothing else needs one."""
    if is_configured(settings):
        from storekeeper.engine.runtime.session import leased_session  # noqa: PLC0415 (loads Spark)

        with leased_session(names, settings, clock) as spark:
            yield spark
    else:
        with jobs_held(names, settings, clock):
            yield None


def progress_after(kafka: Kafka, checkpoint: BatchCheckpoint, app: str, batch: CommittedBatch) -> TaskProgress:
    """The progress of an app's tasks after a batch; empty if it is not known any more, or the app has no tasks.

    Raises:
        BrokerUnavailableError: the broker doesn't answer.
    """
    claim, query_id = CheckpointOwner.read(checkpoint.path), checkpoint.query_id()
    if claim is None or query_id is None:
        return {}
    topics = {slot: markers_topic(app, batch.generation, slot) for slot in claim.slots}
    there = {*Topics(kafka).names()}.intersection(topics.values())
    progress: dict[str, dict[str, str]] = {}
    for slot, topic in topics.items():
        markers = markers_after(kafka, topic, query_id, batch.batch_id) if topic in there else None
        if markers is None:
            return {}
        progress[slot] = {str(partition): marker.progress.decode() for partition, marker in sorted(markers.items())}
    return progress


class Snapshot:
    """One run. It began at `now_ms`, before it reads anything. Hold the store's lease."""

    def __init__(
        self, settings: AppSettings, store: StoreSpec, app: AppSpec, *, now_ms: int, live_from: int = 0
    ) -> None:
        self._store = store
        self._now_ms = now_ms
        self._live_from = live_from
        self._kafka = settings.kafka
        self._generation = settings.generation
        self._values = values_of(store, settings)
        self._checkpoint = BatchCheckpoint(settings.checkpoint_dir(store.app))
        self.entries = entry_of_store(store, app, settings), entry_of_history(store, app, settings)

    def take(
        self, batch: CommittedBatch | None, progress: TaskProgress | None = None, *, fold: bool = True
    ) -> tuple[SnapshotManifest, int | None]:
        """The manifest of the newest snapshot, and how many keys this run changed; None if it made no commit.

        Args:
            batch: what the snapshot is of; not older than the last snapshot's. None: the app has finished no batch.
            progress: that of the app's tasks after it.
            fold: whether the table follows its history. A store's first table is always written.
        """
        log, (table, history) = Changelog(self._kafka, self._store.changelog_topic), self.entries
        if self._values.registry is not None:
            self._values.registry.ids(value_subject(log.topic))  # so that one that is away is found at once
        current = Current(self._store, table, self._values)
        if batch is None:
            return current.create(self._generation, log.topic, {at: log.first(at) for at in log.partitions}), None
        appending = Appending(
            store=self._store,
            entry=history,
            log=log,
            values=self._values,
            planned=partial(planned_batches, self._checkpoint),
            tombstones_ms=log.facts.delete_retention_ms,
            now_ms=self._now_ms,
            changelog_id=log.facts.topic_id,
            live_from=self._live_from,
            progress=progress or {},
        )
        known = None if current.verified is None else current.verified.manifest
        end = appending.upto(batch, floor_ms=0 if known is None else known.batch_ms)
        return current.follow(end) if fold or known is None else (known, None)
