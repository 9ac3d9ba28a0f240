"""Snapshots enter their tables in a configured catalogue, and succeed whether it answers or not.

`tests/quality/test_table_gate.py` has the quality gate.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from pyspark.sql import SparkSession

from harness.app_process import AppProcesses
from harness.broker import Broker, start_broker
from spark_apps.pos import POS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spark_properties import SparkProperties
from storekeeper.clock import SystemClock
from storekeeper.snapshots.catalogue.entry import is_configured
from storekeeper.snapshots.columns import PLACE_MEANINGS
from storekeeper.snapshots.job import take_snapshots
from tests.snapshots.catalogue.metastore import comments, derby, spark_sql

HIVE = SparkProperties({"spark.sql.catalogImplementation": "hive"})
"""The session of tests was started without it, and keeps its catalogue in memory."""
REWARDS = replace(POS.stores[0], topic="catalogue-rewards-changelog")


def entered(spark: SparkSession) -> list[str]:
    return sorted(table.tableName for table in spark.sql("SHOW TABLES").collect())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, False),
        ({"spark.sql.catalogImplementation": "in-memory"}, False),
        ({"spark.sql.catalogImplementation": "hive"}, True),
        ({"spark.sql.defaultCatalog": "spark_catalog"}, False),
        ({"spark.sql.defaultCatalog": "lake"}, True),
    ],
)
def test_sparks_properties_say_whether_there_is_a_catalogue(given: dict[str, str], expected: bool) -> None:
    assert is_configured(AppSettings(spark=SparkProperties(given))) is expected


@pytest.mark.broker
@pytest.mark.spark
def test_a_snapshot_enters_its_table_and_does_without_a_catalogue_that_refuses_it(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic(REWARDS.changelog_topic, config={"cleanup.policy": "compact"})
    monkeypatch.setattr("storekeeper.engine.runtime.session.leased_session", lambda *_: nullcontext(spark))
    without = AppSettings(run_dir=tmp_path / "one", kafka_bootstrap=broker.bootstrap)
    take_snapshots([REWARDS], without, SystemClock(), live_from=0)
    assert entered(spark) == []

    with structlog.testing.capture_logs() as logs:
        take_snapshots([REWARDS], without.model_copy(update={"spark": HIVE}), SystemClock(), live_from=0)
    assert entered(spark) == ["rewards"], "the next run enters a table that isn't there"
    assert PLACE_MEANINGS.items() <= comments(spark, "rewards").items()
    assert logs == []

    elsewhere = AppSettings(run_dir=tmp_path / "two", kafka_bootstrap=broker.bootstrap, spark=HIVE)
    with structlog.testing.capture_logs() as logs:
        (summary,) = take_snapshots([REWARDS], elsewhere, SystemClock(), live_from=0)
    assert summary.manifest.store == "rewards"
    (warning,) = logs
    assert (warning["event"], warning["log_level"], warning["table"]) == (
        "table_not_in_catalogue",
        "warning",
        "rewards",
    )
    assert "has a table rewards at" in warning["reason"]


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.timeout(2400)  # three sessions of Spark, one after the other
@pytest.mark.long("test_by_itself.py has a catalogue that refuses the table")
def test_snapshots_succeed_while_the_metastore_is_away_and_a_later_one_enters_the_table(
    tmp_path: Path,
) -> None:
    broker = start_broker(tmp_path / "broker")
    apps = AppProcesses(tmp_path, broker.bootstrap, patience_s=900)
    try:
        broker.create_topic(POS.stores[0].changelog_topic, config={"cleanup.policy": "compact"})
        away = {"sql.catalogImplementation": "hive", "hadoop.hive.metastore.uris": "thrift://127.0.0.1:9"}
        there = derby(tmp_path)
        for metastore, warned in ((away, True), (there, False)):
            done = apps.run("snapshot", "create", "rewards", spark=json.dumps(metastore))
            assert done.returncode == 0, done.stderr[-3000:]
            assert ("table_not_in_catalogue" in done.stderr) is warned, done.stderr[-3000:]
        answer = spark_sql(there, tmp_path, "SELECT count(*) FROM rewards; DESCRIBE TABLE rewards")
        assert answer.splitlines()[0] == "0"
        assert PLACE_MEANINGS["_offset"] in answer
    finally:
        apps.stop()
        broker.stop()
