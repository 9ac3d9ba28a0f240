"""Topics that get partitions while an app runs: it reads them all, or stops before it counts a key in two places."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.broker import Broker
from storekeeper.apps.errors import MorePartitionsError, PartitionsChangedError
from storekeeper.apps.topology_app import Describe
from storekeeper.changelog.partitioner import partition_for
from storekeeper.engine.runtime.batch_query import ProcessBatch
from tests.engine import topologies
from tests.engine.spark_run import SparkRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]

MakeRun = Callable[[str, Describe], SparkRun]
NOW_MS = int(time.time() * 1000) - 3_600_000  # a topic would soon let older records go


@pytest.fixture
def make_run(broker: Broker, spark_session: SparkSession, tmp_path: Path) -> MakeRun:
    return lambda app, describe: SparkRun(app, describe, broker, spark_session, tmp_path / app)


def test_an_input_of_an_app_without_state_may_grow(make_run: MakeRun, broker: Broker) -> None:
    run = make_run("merged", topologies.merged)
    run.make_topics({"merged-left": 2, "merged-right": 2, "merged-out": 1})
    given = 0

    def give() -> None:
        nonlocal given
        numbers = range(given, given + 40)
        for topic in ("merged-left", "merged-right"):
            run.produce(topic, [(b"%d" % n, b"%d" % n, NOW_MS + n) for n in numbers])
        given += 40

    def grown(process: ProcessBatch) -> ProcessBatch:
        """Lets a topic grow while the app runs, before its second batch is planned."""

        def grows(batch_id: int) -> None:
            process(batch_id)
            if batch_id == 1:
                broker.add_partitions("merged-left", 3)
                run._producer.list_topics("merged-left", timeout=30)  # so that it knows them
                for partition in range(3):
                    run.produce("merged-left", [(b"new", b"%d" % (1000 + partition), NOW_MS)], partition=partition)

        return grows

    give()
    run.run()
    give()
    with pytest.raises(MorePartitionsError, match="merged-left"):
        run.run(grown)
    give()
    run.run()  # in the same worker processes, which have laid out tasks before
    found = sorted(int(value or b"") for _, _, value, _ in run.records("merged-out"))
    assert found == sorted([*range(given)] * 2 + [1000, 1001, 1002])


def test_no_key_is_counted_in_two_partitions_of_a_repartition_topic_that_grows(
    make_run: MakeRun, broker: Broker
) -> None:
    run = make_run("joined", topologies.joined)
    run.make_topics({"joined-customers": 2, "joined-items": 1, "joined-sales": 2, "joined-out": 1})
    run.produce("joined-items", [(b"a", b"apple", NOW_MS)])
    run.produce("joined-customers", [(b"c%d" % n, b'{"city":"city-%d"}' % n, NOW_MS) for n in range(10)])

    def sell() -> None:
        run.produce("joined-sales", [(b"c%d" % n, b'{"item":"a","number":1}', NOW_MS + 1) for n in range(10)])

    sell()
    run.settle("joined-out", 10)
    [repartition] = [topic for topic in run.topics() if topic.endswith("repartition")]
    moves = [key for key in (b"city-%d apple" % n for n in range(10)) if partition_for(key, 2) != partition_for(key, 3)]
    assert moves

    def grown(process: ProcessBatch) -> ProcessBatch:
        def grows(batch_id: int) -> None:
            broker.add_partitions(repartition, 3)
            process(batch_id)

        return grows

    sell()
    with pytest.raises(PartitionsChangedError, match="partitions"):
        run.run(grown)
    with pytest.raises(PartitionsChangedError, match=f"topic {repartition} has 3 partitions"):
        run.run()
    assert {int(value) for value in run.rows("joined-cities-changelog").values()} == {1}
    assert not [key for partition, key, _, _ in run.records(repartition) if partition == 2]
