"""`totals` of `benchmarks/stream_apps.py` by PySpark's own state: `python -m benchmarks.plain_spark BOOTSTRAP RUN_DIR`.

Written as Spark's documentation shows `transformWithState`: RocksDB as the state store with changelog checkpointing,
and each updated total to a topic, by its own Kafka connector. It runs until TERM, with our master and memory.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import col, from_json, struct, to_json
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from benchmarks.stream_apps import EVENTS
from storekeeper.apps.settings import AppSettings
from storekeeper.engine.runtime.session import start_session

TOTALS = "plain-spark-totals"
CONNECTOR_JARS = Path(__file__).parents[1] / ".jars" / "spark-kafka"
_STATE_STORE = "spark.sql.streaming.stateStore"
_SQL_STATE = "org.apache.spark.sql.execution.streaming.state"
_PARTITIONS = 4


class Totals(StatefulProcessor):
    """Count and sum of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declares the state."""
        self._totals = handle.getValueState("totals", "Events bigint, Total bigint")

    def handleInputRows(  # noqa: N802 (Spark's name)
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803 (Spark's name)
    ) -> Iterator[Row]:
        """Adds a key's events of a batch."""
        found = self._totals.get() if self._totals.exists() else None
        events, total = found or (0, 0)
        for row in rows:
            events, total = events + 1, total + row.Amount
        self._totals.update((events, total))
        yield Row(key=key[0], Events=events, Total=total)

    def close(self) -> None:
        """Nothing is open."""


def _run(spark: SparkSession, bootstrap: str, settings: AppSettings) -> None:
    spark.conf.set(f"{_STATE_STORE}.providerClass", f"{_SQL_STATE}.RocksDBStateStoreProvider")
    spark.conf.set(f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled", "true")
    spark.conf.set("spark.sql.shuffle.partitions", str(_PARTITIONS))
    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", EVENTS)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
        .option("kafka.isolation.level", "read_committed")
        .load()
        .select(col("key").cast("string"), from_json(col("value").cast("string"), "Amount bigint").alias("event"))
        .select("key", "event.Amount")
    )
    totals = events.groupBy("key").transformWithState(
        Totals(), "key string, Events bigint, Total bigint", outputMode="Update", timeMode="None"
    )
    query = (
        totals.select("key", to_json(struct("Events", "Total")).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", TOTALS)
        .option("checkpointLocation", str(settings.run_dir / "checkpoint"))
        .outputMode("update")
        .trigger(processingTime=f"{settings.trigger_interval_ms} milliseconds")
        .start()
    )

    def stop(_number: int, _frame: FrameType | None) -> None:
        query.stop()

    signal.signal(signal.SIGTERM, stop)
    query.awaitTermination()


def main() -> None:
    """Runs the query."""
    bootstrap, run_dir = sys.argv[1:]
    connector = ",".join(map(str, sorted(CONNECTOR_JARS.glob("*.jar"))))
    settings = AppSettings(run_dir=Path(run_dir)).with_spark({"spark.jars": connector})
    _run(start_session("plain-spark", settings), bootstrap, settings)


if __name__ == "__main__":
    main()
