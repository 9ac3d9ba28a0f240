"""That a real Spark runs the batch that was planned for it, on a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.broker import Broker
from harness.topics import write_topic
from harness.waiting import eventually
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.batch_ends import TopicGroup
from storekeeper.engine.runtime.batch_query import BatchQuery
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.planner import Planner
from storekeeper.engine.runtime.topics import Topics
from storekeeper.generations.boundary import is_settled, plan_batch, take_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]

TOPIC = "boundary-input"


class _KilledError(Exception):
    pass


def run(spark: SparkSession, broker: Broker, path: Path, seen: dict[int, int], *, batches: int, dies_in: int) -> None:
    """Reads the input until so many batches are finished, or until the batch that it dies in."""
    checkpoint = BatchCheckpoint(path)

    def process(batch_id: int) -> None:
        if batch_id == dies_in:
            raise _KilledError
        seen[batch_id] = checkpoint.end_position(batch_id).offsets[TOPIC][0]

    planner = Planner(Topics(broker.kafka), [TopicGroup((TOPIC,), meet=False)], most=30)
    query = BatchQuery(spark.sparkContext, "boundary", planner, process, checkpoint, 0.05).start()
    try:
        eventually(lambda: not query.is_active or len(seen) >= batches, 90, f"{batches} batches")
        if dies_in >= 0:
            eventually(lambda: not query.is_active, 90, f"batch {dies_in} dies")
            assert isinstance(query.failure, _KilledError)
    finally:
        query.drain(90)


def test_a_batch_ends_exactly_where_it_was_planned_to(
    spark_session: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic(TOPIC, 1)
    write_topic(broker.bootstrap, TOPIC, [(b"k", b"1")] * 200)
    path, seen = tmp_path / "checkpoint", dict[int, int]()
    run(spark_session, broker, path, seen, batches=2, dies_in=2)
    checkpoint = BatchCheckpoint(path)
    assert seen == {0: 30, 1: 60}
    assert (checkpoint.last_planned_batch(), checkpoint.last_committed_batch()) == (2, 1)
    take_back(checkpoint, 1)
    assert is_settled(checkpoint)
    plan_batch(checkpoint, 2, Position({TOPIC: {0: 67}}))
    # Seven records and not thirty, and after it as before.
    run(spark_session, broker, path, seen, batches=4, dies_in=-1)
    assert (seen[2], seen[3]) == (67, 97)
    assert checkpoint.source_ranges(2) == {TOPIC: {0: (60, 67)}}
