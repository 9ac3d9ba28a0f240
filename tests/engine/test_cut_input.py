"""Retention deletes records of a batch that is planned, before its tasks have read them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.broker import Broker
from storekeeper.apps.errors import LostInputError
from storekeeper.engine.runtime.batch_query import ProcessBatch
from storekeeper.program import ExitCode, exit_code_of
from tests.engine import topologies
from tests.engine.spark_run import SparkRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def test_a_planned_range_that_retention_has_cut_is_refused_by_name(
    broker: Broker, spark_session: SparkSession, tmp_path: Path
) -> None:
    run = SparkRun("counted", topologies.counted, broker, spark_session, tmp_path)
    run.make_topics({"counted-events": 1, "counted-out": 1})
    run.produce("counted-events", [(b"a", b"1", 1)] * 20)

    def cut(process: ProcessBatch) -> ProcessBatch:
        def processed(batch_id: int) -> None:
            broker.delete_records("counted-events", 0, 5)
            process(batch_id)

        return processed

    lost = r"topic counted-events begins at offset 5 in partition 0, and is to be read from 0 to 20: .*retention"
    with pytest.raises(LostInputError, match=lost) as refused:
        run.run(cut)
    assert exit_code_of(refused.value) is ExitCode.CONFIGURATION
    assert run.records("counted-out") == []
    assert run.rows("counted-totals-changelog") == {}
    with pytest.raises(LostInputError, match=lost):  # it would be counted without them
        run.run()
