"""Proving a snapshot: the changelog up to the manifest's offsets, and the table at its version, must hold the same."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from spark_apps.session import start_session, stop_session
from spark_apps.settings import AppSettings
from spark_apps.snapshot.changes import newest_by_key, read_changelog
from spark_apps.snapshot.cut import ChangelogRange
from spark_apps.snapshot.table import SnapshotTable, digests_of
from spark_apps.spec import StoreSpec
from spark_apps.topics import Topics, await_topics
from state.clock import Clock
from state.errors import ConfigurationError
from state.snapshots.digest import to_hex
from state.snapshots.manifest import SnapshotManifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_KEYS = 100


@dataclass(frozen=True, slots=True)
class Verification:
    """What was compared. `differing_keys` are the first hundred, in hexadecimal, of `differing_count`.

    `superseded_keys` counts keys that could not be compared, since compaction has removed the changelog's record of
    them for a newer one; with none, equal content means equal digests.
    """

    manifest: SnapshotManifest
    table_digests: dict[int, int]
    changelog_digests: dict[int, int]
    differing_count: int
    differing_keys: list[str]
    superseded_keys: int

    @property
    def holds(self) -> bool:
        """Whether no key differs and the table is what its manifest says."""
        return self.differing_count == 0 and _nonzero(self.table_digests) == _nonzero(self.manifest.digests)

    def as_dict(self) -> dict[str, Any]:
        """The verification as JSON's own types."""
        return {
            "store": self.manifest.store,
            "delta_version": self.manifest.delta_version,
            "holds": self.holds,
            "manifest_digests": _hex(self.manifest.digests),
            "table_digests": _hex(self.table_digests),
            "changelog_digests": _hex(self.changelog_digests),
            "differing_count": self.differing_count,
            "differing_keys": self.differing_keys,
            "superseded_keys": self.superseded_keys,
        }


def verify_snapshot(store: StoreSpec, settings: AppSettings, clock: Clock) -> Verification:
    """Compares the newest snapshot of a store with its changelog.

    Raises:
        BrokerUnavailableError: the broker doesn't answer.
        ConfigurationError: there is no snapshot, or no changelog topic.
    """
    topics = Topics(settings.kafka_bootstrap)
    await_topics(topics, [store.changelog_topic], timeout_s=settings.preflight_timeout_s, clock=clock, wait=time.sleep)
    spark = start_session(f"verify-{store.name}", settings)
    try:
        table = SnapshotTable(spark, settings.delta_table(store.table_name), store)
        manifest = table.newest_manifest() if table.exists else None
        if manifest is None or manifest.changelog_topic != store.changelog_topic:
            msg = (
                f"there is no snapshot of {store.changelog_topic}: "
                f"take one first (`python -m spark_apps snapshot {store.name}`)"
            )
            raise ConfigurationError(msg)
        return compared(spark, settings, table, manifest, topics)
    finally:
        stop_session(spark)


def compared(
    spark: SparkSession, settings: AppSettings, table: SnapshotTable, manifest: SnapshotManifest, topics: Topics
) -> Verification:
    """Compares the snapshot of `manifest` with its changelog, on an open session."""
    bounds = topics.bounds([manifest.changelog_topic])
    whole = ChangelogRange(
        manifest.changelog_topic,
        bounds.start.offsets[manifest.changelog_topic],
        bounds.end.offsets[manifest.changelog_topic],
    )
    records = read_changelog(spark, settings, whole)
    upto = replace(whole, end=manifest.changelog_offsets)
    ours = table.rows(manifest.delta_version).select("_partition", "_key", "_value")
    theirs = newest_by_key(records, upto).where("_value is not null").select("_partition", "_key", "_value")
    later = records.select("_key").distinct().withColumn("is_later", F.lit(True))
    differing = (
        ours.select("_key", F.col("_value").alias("ours"))
        .join(theirs.select("_key", F.col("_value").alias("theirs")), "_key", "full")
        .where("not (ours <=> theirs)")
        .join(newest_by_key(records, upto).select("_key", F.lit(True).alias("known")), "_key", "left")
        .join(later, "_key", "left")
        .persist()
    )
    # A key of which the changelog has only newer records had its older ones compacted away.
    superseded = F.col("known").isNull() & F.col("is_later").isNotNull()
    keys = differing.where(~superseded).select(F.lower(F.hex("_key")))
    return Verification(
        manifest,
        digests_of(ours),
        digests_of(theirs),
        keys.count(),
        [row[0] for row in keys.orderBy(keys.columns[0]).limit(_MAX_KEYS).collect()],
        differing.where(superseded).count(),
    )


def _hex(digests: Any) -> dict[str, str]:
    return {str(partition): to_hex(digest) for partition, digest in sorted(digests.items())}


def _nonzero(digests: Any) -> dict[int, int]:
    return {partition: digest for partition, digest in digests.items() if digest}
