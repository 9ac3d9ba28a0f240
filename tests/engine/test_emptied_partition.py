"""The log of one partition of a changelog is gone from the broker's disk, and the app's local stores are gone, too."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from harness.broker import Broker
from harness.waiting import eventually
from storekeeper.apps.errors import LostChangelogError
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.partitioner import partition_for
from storekeeper.program import ExitCode, exit_code_of
from tests.engine import topologies
from tests.engine.spark_run import SparkRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]

CHANGELOG = "counted-totals-changelog"


def refused(run: SparkRun) -> LostChangelogError | None:
    """The error that ends an app for good; None if it is to try again, as after any restart of a broker."""
    try:
        run.run()
    except BrokerUnavailableError:
        return None
    except LostChangelogError as error:
        return error
    raise AssertionError("it has gone on")


def test_an_app_does_not_count_on_from_nothing(broker: Broker, spark_session: SparkSession, tmp_path: Path) -> None:
    run = SparkRun("counted", topologies.counted, broker, spark_session, tmp_path)
    run.make_topics({"counted-events": 2, "counted-out": 1})
    lost, other = sorted((b"a", b"d"), key=lambda key: partition_for(key, 2))
    run.produce("counted-events", [(key, b"1", 1) for key in (lost, other)])
    run.run()
    assert run.rows(CHANGELOG).keys() == {lost, other}
    broker.stop()
    (log,) = broker.folder.rglob(f"{CHANGELOG}-0")
    shutil.rmtree(log)
    broker.start()
    shutil.rmtree(tmp_path / "tasks")
    run.produce("counted-events", [(key, b"2", 1) for key in (lost, other)])
    for _ in range(2):
        error = eventually(lambda: refused(run), 90, "the app is refused")
        assert f"{CHANGELOG} ends at 0 in partition 0, and the task's marker has it at 1: " in str(error)
        assert exit_code_of(error) is ExitCode.CONFIGURATION
    assert lost not in run.rows(CHANGELOG), "nothing is counted from zero"
    shown = [orjson.loads(value or b"")["total"] for _, key, value, _ in run.records("counted-out") if key == lost]
    assert shown == [1]
