"""An app that has run reads one more topic, whose first records are gone already."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.broker import Broker
from storekeeper.engine.runtime.batch_query import ProcessBatch
from tests.engine import topologies
from tests.engine.spark_run import SparkRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def numbers(first: int, count: int) -> list[tuple[bytes, bytes, int]]:
    return [(b"k", b"%d" % number, 1) for number in range(first, first + count)]


def test_a_topic_whose_first_records_are_deleted_is_read_from_the_first_that_is_there(
    broker: Broker, spark_session: SparkSession, tmp_path: Path
) -> None:
    before = SparkRun("merged", topologies.merged_before, broker, spark_session, tmp_path)
    before.make_topics({"merged-left": 1, "merged-right": 2, "merged-out": 1})
    before.produce("merged-left", numbers(0, 10))
    before.produce("merged-right", numbers(100, 20), partition=0)
    before.run()
    broker.delete_records("merged-right", 0, 15)
    run = SparkRun("merged", topologies.merged, broker, spark_session, tmp_path)

    def dies(_: ProcessBatch) -> ProcessBatch:
        def processed(batch_id: int) -> None:
            raise InterruptedError(batch_id)

        return processed

    with pytest.raises(InterruptedError):
        run.run(dies)
    run.produce("merged-left", numbers(10, 10))
    run.produce("merged-right", numbers(120, 10), partition=0)
    ranges = run.checkpoint.source_ranges(1)
    assert ranges == {"merged-left": {0: (10, 10)}, "merged-right": {0: (15, 20), 1: (0, 0)}}
    run.run()
    assert run.checkpoint.source_ranges(1) == ranges, "the batch that was planned"
    found = sorted(int(value or b"") for _, _, value, _ in run.records("merged-out"))
    assert found == [*range(20), *range(115, 130)]
