"""The Delta table of a store's snapshots, and the manifests in its commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from spark_apps.spec import StoreSpec
from state.snapshots.columns import PLACE_COLUMNS
from state.snapshots.digest import moved
from state.snapshots.manifest import SnapshotManifest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_HASHED = ("_key", "_value", "_offset", "_timestamp_ms")


@dataclass(frozen=True, slots=True)
class ContentChange:
    """What merging changes does to a table: the new row count, and the new digests by partition."""

    row_count: int
    digests: Mapping[int, int]


class SnapshotTable:
    """The table of a store at `path`. One writer at a time."""

    def __init__(self, spark: SparkSession, path: Path, store: StoreSpec) -> None:
        self._spark = spark
        self._path = str(path)
        self._store = store

    def create(self, manifest: SnapshotManifest) -> None:
        """Makes the empty table; its first commit bears `manifest`."""
        builder = DeltaTable.create(self._spark).location(self._path)
        for item in self._store.value_fields:
            builder = builder.addColumn(item.name, item.sql_type)
        for name, kind in PLACE_COLUMNS.items():
            builder = builder.addColumn(name, kind)
        # Without this, the log would repeat the least and greatest of each column: keys that may be personal.
        builder = builder.property("delta.dataSkippingStatsColumns", "_partition,_offset,_timestamp_ms")
        with self._commit_metadata(manifest):
            builder.execute()

    def rows(self, version: int | None = None) -> DataFrame:
        """The table's rows, at a version or the newest."""
        reader = self._spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(self._path)

    def change(self, changes: DataFrame, before: SnapshotManifest) -> ContentChange:
        """What merging `changes` (one a key) will do to the content that `before` describes."""
        old = self.rows().select("_partition", *_HASHED)
        removed = _sums(old.join(changes.select("_key"), "_key", "left_semi"))
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

    def merge(self, changes: DataFrame, manifest: SnapshotManifest) -> None:
        """Applies `changes` (one a key; a null value deletes) and commits them with `manifest`, all or nothing."""
        with self._commit_metadata(manifest):
            (
                DeltaTable.forPath(self._spark, self._path)
                .alias("t")
                .merge(changes.alias("s"), "t._key = s._key")
                .whenMatchedDelete("s._value is null")
                .whenMatchedUpdateAll()
                .whenNotMatchedInsertAll("s._value is not null")
                .execute()
            )

    def replace(self, rows: DataFrame, manifest: SnapshotManifest) -> None:
        """Puts `rows` and their columns in place of all that the table holds, and commits that with `manifest`.

        One commit: whoever reads meanwhile reads the snapshot before or this one, and versions before stay readable.
        """
        with self._commit_metadata(manifest):
            rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(self._path)

    @contextmanager
    def _commit_metadata(self, manifest: SnapshotManifest) -> Iterator[None]:
        self._spark.conf.set(_USER_METADATA, manifest.to_json())
        try:
            yield
        finally:
            self._spark.conf.unset(_USER_METADATA)


def content_of(rows: DataFrame) -> ContentChange:
    """What rows make of an empty table."""
    sums = _sums(rows)
    digests = {partition: moved(0, added=total, removed=0) for partition, (_, total) in sums.items()}
    return ContentChange(sum(count for count, _ in sums.values()), digests)


def _sums(rows: DataFrame) -> dict[int, tuple[int, int]]:
    """Per partition the number of rows and the sum of their hashes: see `state/snapshots/digest.py`."""
    grouped = rows.groupBy("_partition").agg(F.count("*"), *_hash_sums(F.xxhash64(*_HASHED))).collect()
    return {number: (count, (high << 32) + low) for number, count, high, low in grouped}


def _hash_sums(number: Column) -> tuple[Column, Column]:
    """The sums of the upper and the lower halves, which unlike a sum of the whole can't overflow."""
    return F.sum(F.shiftrightunsigned(number, 32)), F.sum(number.bitwiseAND(F.lit(0xFFFFFFFF)))
