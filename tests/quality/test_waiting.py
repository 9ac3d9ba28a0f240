"""What waits to be checked of a staged table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quality.settings import QualitySettings
from quality.table_gate import TableGate, Waiting, waiting_of
from spark_apps.apps.hadoop_export.spec import EXPORT
from state.clock import ManualClock
from tests.local_tables import local_table
from tests.staged_lines import line, stage

CLOCK = ManualClock(now_ms=1_760_000_000_000)


def waiting(settings: QualitySettings) -> Waiting | None:
    return waiting_of(EXPORT.name, settings, CLOCK)


def without_metrics(commit: Path) -> None:
    """Leaves out of a commit how many rows it added."""
    actions = [json.loads(action) for action in commit.read_text().splitlines()]
    for action in actions:
        action.get("commitInfo", {}).pop("operationMetrics", None)
    commit.write_text("\n".join(map(json.dumps, actions)))


def test_nothing_waits_before_anything_is_staged(settings: QualitySettings) -> None:
    assert waiting(settings) is None


def test_the_rows_of_all_versions_wait(settings: QualitySettings) -> None:
    stage(settings, line(1), line(2))
    stage(settings, line(3))
    assert waiting(settings) == Waiting(0, 1, 3)


def test_a_commit_that_does_not_say_how_many_rows_it_added_makes_the_number_unknown(settings: QualitySettings) -> None:
    stage(settings, line(1), line(2))
    stage(settings, line(3))
    without_metrics(local_table(settings, EXPORT.staged_name) / "_delta_log" / f"{1:020d}.json")
    assert waiting(settings) == Waiting(0, 1, None)


@pytest.mark.spark
def test_what_was_decided_waits_no_more_and_rows_that_spark_stages_are_counted(
    settings: QualitySettings, spark: SparkSession
) -> None:
    stage(settings, line(1), line(2))
    gate = TableGate(EXPORT, settings, CLOCK, lambda: spark)
    batch = gate.pending()
    assert batch is not None
    gate.decide(batch)
    assert waiting(settings) is None
    staged = str(local_table(settings, EXPORT.staged_name))
    spark.read.format("delta").load(staged).write.format("delta").mode("append").save(staged)
    assert waiting(settings) == Waiting(1, 1, 2)
