"""An older copy of a checkpoint, put back by mistake, on Spark and Kafka: it runs no batch, and the newest one can."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from harness.broker import Broker
from storekeeper.apps.errors import UnusableCheckpointError
from storekeeper.clock import SystemClock
from storekeeper.engine.driver.preflight import preflight
from storekeeper.engine.own_topics import CHANGELOG_CONFIG
from storekeeper.engine.runtime.topics import Topics
from tests.engine import topologies
from tests.engine.spark_run import SparkRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def start(run: SparkRun) -> None:
    """Starts the app, as far as it may, on what waits."""
    spec = run.context.spec
    claim = preflight(spec, run.settings, Topics(run.settings.kafka), SystemClock()).claim
    run.run()
    replace(claim, query_id=run.checkpoint.query_id()).write(run.checkpoint.path)


def test_an_older_copy_is_refused_before_its_first_batch(
    broker: Broker, spark_session: SparkSession, tmp_path: Path
) -> None:
    run = SparkRun("counted", topologies.counted, broker, spark_session, tmp_path)
    run.make_topics({"counted-events": 2, "counted-out": 1})
    Topics(run.settings.kafka).ensure_internal("counted-totals-changelog", 2, CHANGELOG_CONFIG)
    checkpoint = run.checkpoint.path
    assert isinstance(checkpoint, Path)
    for partition, key in enumerate((b"a", b"d")):  # each belongs there
        run.produce("counted-events", [(key, b"1", 1)], partition=partition)
    start(run)
    copy = shutil.copytree(checkpoint, tmp_path / "copy")
    run.produce("counted-events", [(b"a", b"2", 1)], partition=0)
    start(run)
    newest = checkpoint.rename(tmp_path / "newest")
    copy.rename(checkpoint)
    # The task of this partition has committed nothing since the copy was made: it would run the copy's next batch.
    run.produce("counted-events", [(b"d", b"4", 1)], partition=1)
    for _ in range(2):
        with pytest.raises(UnusableCheckpointError, match="is an older copy of the one of counted generation 1"):
            start(run)
    shutil.rmtree(checkpoint)
    newest.rename(checkpoint)
    start(run)
    totals = {key: orjson.loads(row)["total"] for key, row in run.rows("counted-totals-changelog").items()}
    assert totals == {b"a": 3, b"d": 5}
