"""Taking a snapshot of a store, into the Delta table of its snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import structlog
from delta.tables import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.changelog.position import Position
from storekeeper.clock import Clock
from storekeeper.engine.errors import errors_of_tasks
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.lease import job_lease
from storekeeper.engine.runtime.session import leased_session, make_table
from storekeeper.engine.runtime.topics import Topics, await_topics, facts_of
from storekeeper.errors import ChangelogError, StateError
from storekeeper.program import ExitCode, exit_code_of
from storekeeper.schemas.bound import value_subject
from storekeeper.snapshots.catalogue.entry import Entry, entry_of_store
from storekeeper.snapshots.catalogue.registration import is_configured, try_to_register
from storekeeper.snapshots.changes import (
    ChangelogRange,
    CommittedBatch,
    cut,
    newest_by_key,
    planned_batches,
    range_to_fold,
    read_changelog,
    with_columns,
)
from storekeeper.snapshots.columns import PLACE_COLUMNS, ROW_KEY, values_of
from storekeeper.snapshots.delta_log import VerifiedVersion
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.proof import check_proven
from storekeeper.snapshots.seal import SealedTable
from storekeeper.stores.row_digest import moved

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_HASHED = ("_key", "_value", "_offset", "_timestamp_ms")


@dataclass(frozen=True, slots=True)
class ContentChange:
    """A table's content after a change: the row count, and the digests by partition."""

    row_count: int
    digests: Mapping[int, int]


class SnapshotTable:
    """The table of a store, with the comments of its entry. One writer at a time."""

    def __init__(self, spark: SparkSession, entry: Entry, sealed: SealedTable) -> None:
        self._spark = spark
        self._path = str(entry.path)
        self._entry = entry
        self.sealed = sealed

    def create(self, manifest: SnapshotManifest) -> None:
        """Makes the empty table; its first commit has `manifest`."""
        builder = DeltaTable.create(self._spark).location(self._path).comment(self._entry.meaning)
        for name, kind in {**manifest.columns, **PLACE_COLUMNS}.items():
            builder = builder.addColumn(name, kind, comment=self._entry.columns.get(name))
        # Without this, the log would have the minimum and maximum of each column: keys may be personal data.
        builder = builder.property("delta.dataSkippingStatsColumns", "_partition,_offset,_timestamp_ms")
        with self._commit_metadata(manifest):
            make_table(builder, self._entry.path)

    def rows(self, version: int | None = None) -> DataFrame:
        """The table's rows, at a version or the newest."""
        reader = self._spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(self._path)

    def change(self, changes: DataFrame, before: SnapshotManifest) -> ContentChange:
        """The content after `changes` (one per partition and key) are merged into the snapshot `before`."""
        old = self.rows().select("_partition", *_HASHED)
        removed = _sums(old.join(changes.select(*ROW_KEY), list(ROW_KEY), "left_semi"))
        added = _sums(changes.where("_value is not null"))
        digests = dict(before.digests)
        row_count = before.row_count
        for partition, (count, total) in added.items():
            digests[partition] = moved(digests.get(partition, 0), added=total, removed=0)
            row_count += count
        for partition, (count, total) in removed.items():
            digests[partition] = moved(digests.get(partition, 0), added=0, removed=total)
            row_count -= count
        return ContentChange(row_count, digests)

    def kept(self, changes: DataFrame) -> DataFrame:
        """The table's rows that `changes` leave alone, without the columns that follow from values."""
        return self.rows().select(*PLACE_COLUMNS).join(changes.select(*ROW_KEY), list(ROW_KEY), "left_anti")

    def merge(self, changes: DataFrame, manifest: SnapshotManifest) -> None:
        """Applies `changes` (one per partition and key; a null value deletes) and commits them, all or nothing.

        The commit has `manifest`.
        """
        with self._commit_metadata(manifest):
            (
                DeltaTable.forPath(self._spark, self._path)
                .alias("t")
                .merge(changes.alias("s"), " and ".join(f"t.{name} = s.{name}" for name in ROW_KEY))
                .whenMatchedDelete("s._value is null")
                .whenMatchedUpdateAll()
                .whenNotMatchedInsertAll("s._value is not null")
                .execute()
            )

    def replace(self, rows: DataFrame, manifest: SnapshotManifest) -> None:
        """Replaces the table's rows and columns with those of `rows`, and commits that with `manifest`.

        It is one commit: a reader sees the previous snapshot or this one, and earlier versions stay readable. Columns
        have their comments in it.
        """
        comments = {**self._comments(), **self._entry.columns}  # a field that is gone may have kept its column
        commented = rows.select(*(_with_comment(name, comments.get(name)) for name in rows.columns))
        with self._commit_metadata(manifest):
            commented.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(self._path)

    def _comments(self) -> dict[str, str]:
        fields = self.rows().schema.fields
        return {item.name: item.metadata["comment"] for item in fields if "comment" in item.metadata}

    @contextmanager
    def _commit_metadata(self, manifest: SnapshotManifest) -> Iterator[None]:
        """Lets the block make the manifest's version, and seals it."""
        self._spark.conf.set(_USER_METADATA, manifest.to_json())
        try:
            with self.sealed.writing(manifest.delta_version):
                yield
        finally:
            self._spark.conf.unset(_USER_METADATA)


def _with_comment(name: str, comment: str | None) -> Column:
    return F.col(f"`{name}`").alias(name, metadata={} if comment is None else {"comment": comment})


def content_of(rows: DataFrame) -> ContentChange:
    """The content of a table with only `rows`."""
    sums = _sums(rows)
    digests = {partition: moved(0, added=total, removed=0) for partition, (_, total) in sums.items()}
    return ContentChange(sum(count for count, _ in sums.values()), digests)


def _sums(rows: DataFrame) -> dict[int, tuple[int, int]]:
    """Per partition the number of rows and the sum of their hashes: see `storekeeper/stores/row_digest.py`."""
    grouped = rows.groupBy("_partition").agg(F.count("*"), *_hash_sums(F.xxhash64(*_HASHED))).collect()
    return {number: (count, (high << 32) + low) for number, count, high, low in grouped}


def _hash_sums(number: Column) -> tuple[Column, Column]:
    """The sums of the upper and the lower halves. They can't overflow; a sum of whole hashes could."""
    return F.sum(F.shiftrightunsigned(number, 32)), F.sum(number.bitwiseAND(F.lit(0xFFFFFFFF)))


WRITER = "storekeeper.snapshots"

_READING_MS = 3_600_000
"""Time to read a changelog in, while its cleaner goes on; and how old tombstones of an unfinished batch may be."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SnapshotSummary:
    """What a run did. `committed` is False if there was nothing new; `manifest` is then the previous one.

    `changed_keys` counts keys that were written or deleted. `duration_ms` counts from the beginning of the run.
    """

    manifest: SnapshotManifest
    committed: bool
    changed_keys: int
    duration_ms: int

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON types: the manifest's fields and those of this class."""
        own = {"committed": self.committed, "changed_keys": self.changed_keys, "duration_ms": self.duration_ms}
        return self.manifest.as_dict() | own


def take_snapshots(stores: Sequence[StoreSpec], settings: AppSettings, clock: Clock) -> list[SnapshotSummary]:
    """Updates the Delta tables of an app's stores to its last committed batch, the same for all of them.

    Safe to run again after any crash. A store that fails doesn't keep the others from their snapshots. Their errors
    are logged, and the one that a retry can't mend is raised, if there is one.

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
    jobs = [job_lease(store.name, "snapshot") for store in stores]
    with leased_session(jobs, settings, clock) as spark:
        batch = CommittedBatch.of(BatchCheckpoint(settings.checkpoint_dir(stores[0].app)), settings.generation)

        def taken(store: StoreSpec) -> SnapshotSummary:
            entry = entry_of_store(store, APPS[store.app], settings)
            run = Snapshot(spark, settings, store, topics, entry, now_ms=clock.now_ms())
            manifest, changed_keys = run.take(batch)
            if is_configured(settings):
                try_to_register(spark, entry)
            duration_ms = round((clock.monotonic_s() - started_s) * 1000)
            return SnapshotSummary(manifest, changed_keys is not None, changed_keys or 0, duration_ms)

        return each_taken(stores, taken)


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


class Snapshot:
    """One run on an open session. It began at `now_ms`, before it reads anything."""

    def __init__(
        self,
        spark: SparkSession,
        settings: AppSettings,
        store: StoreSpec,
        topics: Topics,
        entry: Entry,
        *,
        now_ms: int,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._store = store
        self._topics = topics
        self._now_ms = now_ms
        self._path = entry.path
        self._table = SnapshotTable(spark, entry, SealedTable.of(settings, store.table_name))
        self._values = values_of(store, settings)
        self._checkpoint = BatchCheckpoint(settings.checkpoint_dir(store.app))

    def take(self, batch: CommittedBatch | None) -> tuple[SnapshotManifest, int | None]:
        """The manifest of the newest snapshot, and how many keys this run changed; None if it made no commit.

        Args:
            batch: what the snapshot is of; not older than the last snapshot's. None: the app has finished no batch.
        """
        # The batch's records lie before ends of what is committed that are asked for after the batch.
        bounds = self._topics.committed_bounds([self._store.changelog_topic])
        verified = self._table.sealed.to_build_on(self._check_proven)
        whole = range_to_fold(self._store.changelog_topic, None, bounds)
        if verified is not None and verified.manifest.changelog_topic != self._store.changelog_topic:
            if batch is None:
                return verified.manifest, None
            return self._folded_anew(whole, batch, replace(verified, manifest=self._first_manifest(whole)))
        before = None if verified is None else verified.manifest
        changelog = range_to_fold(self._store.changelog_topic, before, bounds)
        if verified is None:
            verified = VerifiedVersion(0, self._first_manifest(whole))
            self._table.create(verified.manifest)
        if batch is None or (changelog.is_empty and not self._evolves(verified.manifest)):
            return verified.manifest, None
        records, changelog = self._committed(changelog, batch)
        if changelog.is_empty and not self._evolves(verified.manifest):
            return verified.manifest, None
        if self._lacks_deletions(verified.manifest):
            return self._folded_anew(whole, batch, verified)
        with errors_of_tasks():  # the registry may stop answering the workers
            return self._written(records, changelog, batch, verified, anew=False)

    def _evolves(self, before: SnapshotManifest) -> bool:
        """Whether the next snapshot has other columns."""
        return self._values.next_columns(before) != self._values.columns_of(before)

    def _check_proven(self, verified: VerifiedVersion) -> None:
        """Proves a snapshot of this generation. Another generation's is replaced as a whole."""
        if verified.manifest.changelog_topic == self._store.changelog_topic:
            check_proven(self._path, verified, self._values)

    def _lacks_deletions(self, before: SnapshotManifest) -> bool:
        """Whether the changelog may have lost tombstones of rows that the snapshot `before` still has."""
        if not before.row_count:
            return False
        topic = self._store.changelog_topic
        kept_ms = facts_of({topic: topic}, self._settings)[topic].delete_retention_ms
        return self._now_ms - before.read_at_ms >= kept_ms - _READING_MS

    def _folded_anew(
        self, whole: ChangelogRange, batch: CommittedBatch, verified: VerifiedVersion
    ) -> tuple[SnapshotManifest, int]:
        """Replaces all that the table has: after a change of generation, or if tombstones may be gone."""
        _log.info("changelog_folded_from_its_beginning", store=self._store.name, topic=whole.topic)
        with errors_of_tasks():
            return self._written(*self._committed(whole, batch), batch, verified, anew=True)

    def _committed(self, changelog: ChangelogRange, batch: CommittedBatch) -> tuple[DataFrame, ChangelogRange]:
        """The records of a range, and the part of it that ends with `batch`."""
        records = read_changelog(self._spark, self._settings, changelog)
        # Read after the range's end: every batch with records before that end is planned by now.
        return records, cut(records, changelog, batch, planned_batches(self._checkpoint))

    def _written(
        self,
        records: DataFrame,
        changelog: ChangelogRange,
        batch: CommittedBatch,
        verified: VerifiedVersion,
        *,
        anew: bool,
    ) -> tuple[SnapshotManifest, int]:
        """Merges the changes into the vouched snapshot; `anew`: they replace all its rows.

        Where the columns change, all rows are written again: an old row may have the new field already.
        """
        if self._values.registry is not None:  # Spark's workers need it, and their errors are hard to read
            self._values.registry.ids(value_subject(self._store.changelog_topic))
        before = verified.manifest
        columns = self._values.next_columns(before)
        changes = with_columns(newest_by_key(records, changelog), columns, self._values).persist()
        try:
            self._check_fields(changes, first=not before.row_count)
            rows = changes.where("_value is not null")
            content = content_of(rows) if anew else self._table.change(changes, before)
            manifest = replace(
                before,
                generation=self._settings.generation,
                schema_version=self._store.schema_version,
                changelog_offsets=dict(changelog.end),
                source_offsets=batch.source,
                row_count=content.row_count,
                digests=dict.fromkeys(changelog.end, 0) | dict(content.digests),
                delta_version=verified.version + 1,
                columns=columns,
                read_at_ms=self._now_ms,
                kind=self._store.kind,
                score_field=self._store.score_field,
            )
            if anew:
                self._table.replace(rows, manifest)
            elif self._evolves(before):
                kept = with_columns(self._table.kept(changes), columns, self._values)
                self._table.replace(rows.unionByName(kept), manifest)
            else:
                self._table.merge(changes, manifest)
            _log.info("snapshot", store=self._store.name, version=manifest.delta_version, rows=manifest.row_count)
            return manifest, changes.count()
        finally:
            changes.unpersist()

    def _check_fields(self, changes: DataFrame, *, first: bool) -> None:
        """Logs values that aren't as declared: their rows are kept, with nulls for what can't be read.

        If no value of the first snapshot is as declared, the declaration is wrong, and the snapshot is refused.
        """
        owed = [item.name for item in self._store.value_fields if not item.nullable and item.name in changes.columns]
        incomplete = F.expr(" or ".join(["false", *(f"`{name}` is null" for name in owed)]))
        place = F.when(incomplete, F.struct("_partition", "_offset"))
        misfit = changes.where("_value is not null").agg(F.count("*"), F.count(place), F.min(place)).head()
        rows, odd, where = misfit if misfit is not None else (0, 0, None)
        if where is None:
            return
        if first and odd == rows:
            msg = (
                f"{self._store.changelog_topic} partition {where[0]} offset {where[1]} is not a value of store "
                f"{self._store.name} as declared, and neither is any other: correct the store's value fields"
            )
            raise ChangelogError(msg)
        _log.warning(
            "snapshot_values_not_as_declared",
            store=self._store.name,
            topic=self._store.changelog_topic,
            rows=odd,
            partition=where[0],
            offset=where[1],
        )

    def _first_manifest(self, changelog: ChangelogRange) -> SnapshotManifest:
        manifest = SnapshotManifest(
            store=self._store.name,
            app=self._store.app,
            generation=self._settings.generation,
            schema_version=self._store.schema_version,
            changelog_topic=changelog.topic,
            changelog_offsets=dict(changelog.start),
            source_offsets=Position(),
            row_count=0,
            digests=dict.fromkeys(changelog.start, 0),
            writer=WRITER,
            delta_version=0,
            by_schema=self._store.by_schema,
            read_at_ms=self._now_ms,
            kind=self._store.kind,
            score_field=self._store.score_field,
        )
        return replace(manifest, columns=self._values.next_columns(manifest))
