"""The Delta table that a topic's rows are staged in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta.tables import DeltaTable

from storekeeper.apps.checked_table import CheckedTable
from storekeeper.apps.table_progress import decode_progress, encode_progress
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.session import make_table
from storekeeper.locations import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FEW_COMMITS = 20
"""Nearly always the last commit is the app's: others optimize the table or delete of it."""


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
        table, most = DeltaTable.forPath(self.spark, str(self._path)), _FEW_COMMITS
        while True:
            # Collected: an iterator's jobs may begin after Spark has deleted the shuffle of its query.
            commits = table.history(most).select("version", "userMetadata").collect()
            for commit in sorted(commits, key=lambda commit: commit["version"], reverse=True):
                found = decode_progress(commit["userMetadata"])
                if found is not None:
                    return found
            if len(commits) < most:
                return Position()
            most *= 100

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
