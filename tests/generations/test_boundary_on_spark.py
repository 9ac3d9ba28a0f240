"""That a real Spark runs the batch that was planned for it, on a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.broker import Broker
from harness.topics import write_topic
from harness.waiting import eventually
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import SparkCheckpoint
from storekeeper.generations.boundary import is_settled, plan_batch, take_back

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]

TOPIC = "boundary-input"


class _KilledError(Exception):
    pass


def run(spark: SparkSession, broker: Broker, path: Path, seen: dict[int, int], *, batches: int, dies_in: int) -> None:
    """Sums the input until so many batches are finished, or until the batch that it dies in."""
    from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 30)
        .load()
    )
    total = source.agg(F.sum(F.col("value").cast("string").cast("bigint")).alias("total"))

    def process(batch: DataFrame, batch_id: int) -> None:
        if batch_id == dies_in:
            raise _KilledError
        seen[batch_id] = batch.collect()[0]["total"]

    query = (
        total.writeStream.outputMode("update")
        .foreachBatch(process)
        .option("checkpointLocation", str(path))
        .trigger(processingTime="50 milliseconds")
        .start()
    )
    try:
        eventually(lambda: not query.isActive or len(seen) >= batches, 90, f"{batches} batches")
        if dies_in >= 0:
            eventually(lambda: not query.isActive, 90, f"batch {dies_in} dies")
        elif batches:
            # A batch is seen before Spark notes that it is finished.
            wanted = max(seen)
            finished = SparkCheckpoint(path).last_committed_batch
            eventually(lambda: (finished() or 0) >= wanted, 90, f"batch {wanted} is finished")
    finally:
        query.stop()


def test_a_batch_ends_exactly_where_it_was_planned_to(
    spark_session: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic(TOPIC, 1)
    write_topic(broker.bootstrap, TOPIC, [(b"k", b"1")] * 200)
    path, seen = tmp_path / "checkpoint", dict[int, int]()
    run(spark_session, broker, path, seen, batches=2, dies_in=2)
    checkpoint = SparkCheckpoint(path)
    assert seen == {0: 30, 1: 60}
    assert (checkpoint.last_planned_batch(), checkpoint.last_committed_batch()) == (2, 1)
    take_back(checkpoint, 1)
    assert is_settled(checkpoint)
    plan_batch(checkpoint, 2, Position({TOPIC: {0: 67}}))
    # Seven records and not thirty, and after it as before.
    run(spark_session, broker, path, seen, batches=4, dies_in=-1)
    assert (seen[2], seen[3]) == (67, 97)
    assert checkpoint.source_ranges(2) == {TOPIC: {0: (60, 67)}}
