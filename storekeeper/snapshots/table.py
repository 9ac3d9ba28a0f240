"""The Delta table of a store's snapshots, and the manifests in its commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from storekeeper.engine.runtime.new_table import make_table
from storekeeper.snapshots.catalogue.entry import Entry
from storekeeper.snapshots.columns import PLACE_COLUMNS, ROW_KEY
from storekeeper.snapshots.manifest import SnapshotManifest
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

    def __init__(self, spark: SparkSession, entry: Entry) -> None:
        self._spark = spark
        self._path = str(entry.path)
        self._entry = entry

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
        self._spark.conf.set(_USER_METADATA, manifest.to_json())
        try:
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
