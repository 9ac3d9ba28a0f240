"""What waits to be checked of a staged table."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from quality.hadoop_export import EXPORT
from storekeeper.clock import ManualClock
from storekeeper.quality.errors import StagedTableError
from storekeeper.quality.gate import Batch, no_session
from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.table_gate import TableGate, Waiting, waiting_of
from storekeeper.quality.verdict import Status, Verdict, VerdictArchive
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


@pytest.mark.parametrize(
    ("versions", "id_kept"), [(1, True), (2, True), (3, True), (1, False)], ids=["fewer", "as many", "more", "no id"]
)
def test_a_recreated_table_is_refused_until_the_decisions_on_the_one_before_are_moved_away(
    settings: QualitySettings, versions: int, *, id_kept: bool
) -> None:
    stage(settings, line(1))
    stage(settings, line(2))
    staged = local_table(settings, EXPORT.staged_name)
    staged_id = str(DeltaTable(staged).metadata().id) if id_kept else ""
    verdict = Verdict(EXPORT.name, Status.QUARANTINED, 0, 1, 2, CLOCK.now_ms(), staged_id=staged_id)
    VerdictArchive(settings.verdict_dir(EXPORT.name)).put(verdict)
    assert waiting(settings) is None

    staged.rename(staged.with_name("before"))
    for number in range(versions):
        stage(settings, line(number))
    folders = [settings.delta_table(EXPORT.name), settings.verdict_dir(EXPORT.name)]
    remedy = rf"was recreated.*up to 1.*move away {re.escape(', '.join(map(str, folders)))}, .*resolutions"
    with pytest.raises(StagedTableError, match=remedy):
        waiting(settings)
    with pytest.raises(StagedTableError, match=remedy):
        TableGate(EXPORT, settings, CLOCK, no_session).check_again(Batch(0, 1), lambda _: None)
    settings.verdict_dir(EXPORT.name).rename(settings.run_dir / "moved away")
    assert waiting(settings) == Waiting(0, versions - 1, versions)


@pytest.mark.spark
def test_what_was_decided_waits_no_more_and_rows_that_spark_stages_are_counted(
    settings: QualitySettings, spark: SparkSession
) -> None:
    stage(settings, line(1), line(2))
    gate = TableGate(EXPORT, settings, CLOCK, lambda: spark)
    batch = gate.pending()
    assert batch is not None
    staged = str(local_table(settings, EXPORT.staged_name))
    assert gate.decide(batch).staged_id == str(DeltaTable(staged).metadata().id)
    assert waiting(settings) is None
    spark.read.format("delta").load(staged).write.format("delta").mode("append").save(staged)
    assert waiting(settings) == Waiting(1, 1, 2)
