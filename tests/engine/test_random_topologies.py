"""Random topologies on real Spark and Kafka equal a recomputation, whatever their batches and crashes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from harness.broker import Broker
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import topology_app
from storekeeper.testkit.spark_driver import SparkDriver
from storekeeper.topology import CrashStep, StreamsBuilder
from tests.model.random_topologies import Input, Nodes, describe, driven, expected, inputs, is_delayed, topologies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]
_NAMES = count()
CUTS = st.lists(st.integers(4, 12), min_size=1, max_size=3)
CRASHES = st.none() | st.tuples(st.sampled_from(CrashStep), st.integers(0, 2))


def on_spark(streams: StreamsBuilder, _: AppSettings, *, nodes: Nodes) -> None:
    """The topology, as an app."""
    describe(nodes, streams)


@dataclass(frozen=True)
class Engine:
    """Where apps run."""

    broker: Broker
    spark: SparkSession
    folder: Path

    def check(self, nodes: Nodes, records: list[Input], cuts: list[int], crash: tuple[CrashStep, int] | None) -> None:
        """Runs the topology as an app of its own."""
        name = f"random-{next(_NAMES)}"
        app = topology_app(name, partial(on_spark, nodes=nodes), title=name)
        settings = AppSettings(kafka_bootstrap=self.broker.bootstrap)
        with closing(SparkDriver(app, settings, self.spark, self.folder / name, partitions=2)) as driver:
            if crash is not None:
                driver.crash_at(crash[0], batches_before=crash[1])
            found = driven(nodes, records, cuts, driver)
            assert driver.dead_letters == []
        for place, final in expected(nodes, records).items():
            if not is_delayed(nodes, place):
                assert found[place] == final, (place, nodes[place])


@pytest.fixture
def engine(broker: Broker, spark_session: SparkSession, tmp_path: Path) -> Engine:
    return Engine(broker, spark_session, tmp_path)


ON_SPARK: dict[str, Any] = {"deadline": None, "phases": [Phase.generate], "suppress_health_check": list(HealthCheck)}


@settings(max_examples=2, derandomize=True, **ON_SPARK)
@given(nodes=topologies(6), records=inputs(20), cuts=CUTS, crash=CRASHES)
def test_results_do_not_depend_on_batches_or_crashes(
    engine: Engine, nodes: Nodes, records: list[Input], cuts: list[int], crash: tuple[CrashStep, int] | None
) -> None:
    engine.check(nodes, records, cuts, crash)


@pytest.mark.long("test_results_do_not_depend_on_batches_or_crashes")
@pytest.mark.parametrize("_part", range(12))  # each within the time of a test
@settings(max_examples=5, **ON_SPARK)
@given(nodes=topologies(12), records=inputs(40), cuts=CUTS, crash=CRASHES)
def test_many_results_do_not_depend_on_them_either(
    engine: Engine, nodes: Nodes, records: list[Input], cuts: list[int], crash: tuple[CrashStep, int] | None, _part: int
) -> None:
    engine.check(nodes, records, cuts, crash)
