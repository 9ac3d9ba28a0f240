"""The Delta table of exported line items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from storekeeper.apps.table_progress import decode_progress, encode_progress
from storekeeper.changelog.position import Position
from storekeeper.locations import Location
from storekeeper.samples.hadoop_export.spec import EXPORT, HADOOP_EXPORT
from storekeeper.snapshots.catalogue.new_table import make_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {column.name: column.sql_type for column in EXPORT.columns}
"""The table's columns: the fields of a masked line item; the day of its `CreatedTime` in UTC, by which the table is
partitioned; its place in topic `hadoop-sink`, by which the quality gate checks that each is there once."""


class ExportTable:
    """The table at `path`, made if it isn't there. One writer at a time."""

    def __init__(self, spark: SparkSession, path: Location) -> None:
        self._spark = spark
        self._path = path
        builder = DeltaTable.create(spark).location(str(path)).partitionedBy(*EXPORT.partition_by)
        # The quality gate reads from this feed what was added since its last decision.
        builder = builder.property("delta.enableChangeDataFeed", "true")
        for name, kind in COLUMNS.items():
            builder = builder.addColumn(name, kind)
        make_table(builder, path)

    def progress(self) -> Position:
        """How far the table reaches, by its newest commit of this app."""
        history = DeltaTable.forPath(self._spark, str(self._path)).history()
        for row in history.select("version", "userMetadata").orderBy(F.desc("version")).toLocalIterator():
            found = decode_progress(row["userMetadata"])
            if found is not None:
                return found
        return Position()

    def append(self, rows: DataFrame, *, generation: int, batch_id: int, progress: Position) -> None:
        """Adds a batch's rows. A repeated call with the same batch adds nothing."""
        (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", f"{HADOOP_EXPORT.name}-gen-{generation}")
            .option("txnVersion", batch_id)
            .option("userMetadata", encode_progress(HADOOP_EXPORT.name, progress))
            .save(str(self._path))
        )
