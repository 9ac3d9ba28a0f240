"""The Delta table that a topic's rows are staged in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from storekeeper.apps.checked_table import CheckedTable
from storekeeper.apps.table_progress import decode_progress, encode_progress
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.session import make_table
from storekeeper.locations import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class StagedTable:
    """The table at `path`, made if it isn't there. One writer at a time.

    Attributes:
        spark: the session that writes it.
    """

    def __init__(self, spark: SparkSession, app: str, table: CheckedTable, path: Location) -> None:
        self.spark = spark
        self._app = app
        self._path = path
        builder = DeltaTable.create(spark).location(str(path)).partitionedBy(*table.partition_by)
        # The quality gate reads from this feed what was added since its last decision.
        builder = builder.property("delta.enableChangeDataFeed", "true")
        for column in table.columns:
            builder = builder.addColumn(column.name, column.sql_type)
        make_table(builder, path)

    def progress(self) -> Position:
        """How far the table reaches, by its newest commit of this app."""
        history = DeltaTable.forPath(self.spark, str(self._path)).history()
        for row in history.select("version", "userMetadata").orderBy(F.desc("version")).toLocalIterator():
            found = decode_progress(row["userMetadata"])
            if found is not None:
                return found
        return Position()

    def append(self, rows: DataFrame, progress: Position) -> None:
        """Adds rows, with which the table reaches `progress`. A repeated call with the same progress adds nothing.

        Delta refuses what isn't newer than the last commit. Ids of batches would say that of new rows too: they begin
        again with an older copy of the checkpoint, while progress only grows.
        """
        (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", self._app)
            .option("txnVersion", sum(offset for *_, offset in progress))
            .option("userMetadata", encode_progress(self._app, progress))
            .save(str(self._path))
        )
