"""A third of the topology cases on real Spark and Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.broker import Broker
from tests.conformance.case import Case, load_cases
from tests.conformance.spark import batches, run_on_spark, third

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = third(load_cases(Path(__file__).parent / "cases" / "topology_cases.jsonl"))
QUICK = {"join-ss-013", "group-001", "twin-002", "join-fk-015"}
LONG = pytest.mark.long("the cases of test_on_spark.py that are not marked")


@pytest.fixture
def run(spark_session: SparkSession, broker: Broker, tmp_path: Path) -> Callable[[dict[str, Any]], None]:
    return lambda case: run_on_spark(case, spark_session, broker.bootstrap, tmp_path)


@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.id, marks=[] if case.id in QUICK else [LONG]) for case in CASES]
)
def test_case(case: Case, run: Callable[[dict[str, Any]], None]) -> None:
    assert case.topology is not None
    run(case.topology)


def test_events_that_a_task_would_take_in_another_order_are_batches_of_their_own() -> None:
    left, late, right = ["left", 0, "a", 5], ["left", 0, "b", 3], ["right", 0, "c", 4]
    assert list(batches([left, late, right])) == [[left, late], [right]]
    assert list(batches([right, left])) == [[right, left]]
    assert list(batches([right, left], alone=True)) == [[right], [left]]
    assert list(batches([left, ["right", 0, "c", 5]])) == [[left], [["right", 0, "c", 5]]]
