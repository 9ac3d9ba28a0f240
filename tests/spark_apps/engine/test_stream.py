"""Topologies on real Spark and Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from spark_apps.topology_app import Describe
from tests.broker import Broker
from tests.spark_apps.engine import topologies
from tests.spark_apps.engine.spark_run import SparkRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]

MakeRun = Callable[[str, Describe], SparkRun]
NOW_MS = 1_700_000_000_000


@pytest.fixture
def make_run(broker: Broker, spark_session: SparkSession, tmp_path: Path) -> MakeRun:
    return lambda app, describe: SparkRun(app, describe, broker, spark_session, tmp_path / app)


def test_a_count_goes_on_from_batch_to_batch(make_run: MakeRun) -> None:
    run = make_run("counted", topologies.counted)
    run.make_topics({"counted-events": 2, "counted-out": 1})
    run.produce("counted-events", [(b"a", b"1", NOW_MS), (b"b", b"10", NOW_MS + 1), (b"a", b"2", NOW_MS + 2)])
    run.run()
    run.produce("counted-events", [(b"a", b"4", NOW_MS + 3), (b"x", b"no number", NOW_MS + 4)])
    run.run()
    rows = run.rows("counted-totals-changelog")
    assert {key: orjson.loads(value) for key, value in rows.items()} == {
        b"a": {"events": 3, "total": 7},
        b"b": {"events": 1, "total": 10},
    }
    newest = {key: time for _, key, _, time in run.records("counted-totals-changelog")}
    assert newest == {b"a": NOW_MS + 3, b"b": NOW_MS + 1}
    out = [(key, orjson.loads(value or b"")["total"]) for _, key, value, _ in run.records("counted-out")]
    assert [total for key, total in out if key == b"a"] == [1, 3, 7]
    [(_, key, value, _)] = run.records("counted-events-dlq")
    assert (key, value) == (b"x", b"no number")


def test_records_come_together_by_a_shuffle_within_the_batch(make_run: MakeRun) -> None:
    run = make_run("shuffled", topologies.shuffled)
    run.make_topics({"shuffled-numbers": 4, "shuffled-copies": 2, "shuffled-out": 2})
    for batch in range(3):
        numbers = range(batch * 50, batch * 50 + 50)
        run.produce("shuffled-numbers", [(b"%d" % (n % 7), b"%d" % n, NOW_MS + n) for n in numbers])
        run.run()
    assert sorted(int(value or b"") for _, _, value, _ in run.records("shuffled-copies")) == list(range(150))
    rows = run.rows("shuffled-digits-changelog")
    expected = {b"%d" % digit: {"events": 15, "total": sum(range(digit, 150, 10))} for digit in (1, 3, 5, 7, 9)}
    assert {key: orjson.loads(value) for key, value in rows.items()} == expected
    assert len(run.records("shuffled-out")) == 75
    assert run.missing(["shuffled-shuffled-numbers.filter.select-key.repartition"])
