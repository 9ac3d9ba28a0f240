"""Timers by the wall clock fire on real Spark and Kafka without records, in all tasks that have some."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.broker import Broker
from storekeeper.apps.topology_app import Describe
from storekeeper.engine.runtime.batch_query import ProcessBatch
from storekeeper.ops.waiting import eventually
from tests.engine import topologies
from tests.engine.spark_run import SparkRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]

MakeRun = Callable[[str, Describe], SparkRun]
NOW_MS = int(time.time() * 1000)
BEHIND = {"far-0", "far-1"}
TASKS = BEHIND | {"near-0", "near-1", "near-2"}


class CrashError(Exception):
    """What a driver dies of here."""


@pytest.fixture
def make_run(broker: Broker, spark_session: SparkSession, tmp_path: Path) -> MakeRun:
    return lambda app, describe: SparkRun(app, describe, broker, spark_session, tmp_path / app)


def ticks(run: SparkRun) -> dict[str, list[int]]:
    """By task, the numbers of its ticks in the order in which they were committed."""
    found: dict[str, list[int]] = defaultdict(list)
    for _, key, value, _ in run.records("ticking-out"):
        found[(key or b"").decode()].append(int(value or b""))
    return found


def fired(run: SparkRun, tasks: Collection[str], times: int) -> bool:
    """Whether each of some tasks has fired its timer at least `times` times."""
    found = ticks(run)
    return all(len(found[task]) >= times for task in tasks)


def ticking(make_run: MakeRun, describe: Describe = topologies.ticking) -> SparkRun:
    run = make_run("ticking", describe)
    run.make_topics({"ticking-numbers": 3, "ticking-out": 1})
    return run


def test_timers_fire_in_all_tasks_though_one_partition_alone_has_had_records(make_run: MakeRun) -> None:
    run = ticking(make_run)
    run.produce("ticking-numbers", [(b"a", b"%d" % number, NOW_MS) for number in range(3)])
    with run.running() as query:
        assert eventually(partial(fired, run, TASKS, 3), 60), (ticks(run), query.failure)
        query.settle(30)  # nothing waits, though timers go on
        assert query.failure is None
    found, stores = ticks(run), ("near", "far")
    assert found == {task: list(range(1, len(found[task]) + 1)) for task in TASKS}, "each tick is there once"
    assert sum(len(run.records(f"ticking-{store}-changelog")) for store in stores) == sum(map(len, found.values()))
    batches = run.checkpoint.last_committed_batch() or 0
    assert batches <= 3 * max(map(len, found.values())), "no more batches than timers need"


@pytest.mark.parametrize("describe", [topologies.ticking, topologies.ticking_behind])
def test_timers_of_an_app_that_never_had_records_go_on_after_a_restart(make_run: MakeRun, describe: Describe) -> None:
    run = ticking(make_run, describe)
    tasks = TASKS if describe is topologies.ticking else BEHIND
    for times in (1, 2):
        with run.running() as query:
            assert eventually(partial(fired, run, tasks, times), 60), (ticks(run), query.failure)
    found = ticks(run)
    assert found == {task: list(range(1, len(found[task]) + 1)) for task in tasks}


def test_a_batch_without_records_that_was_committed_fires_no_timer_again(make_run: MakeRun) -> None:
    run, ran = ticking(make_run), list[int]()

    def dying(process: ProcessBatch) -> ProcessBatch:
        def processed(batch: int) -> None:
            process(batch)
            if ticks(run):  # no timer is due in the first batch
                ran.append(batch)
                raise CrashError

        return processed

    with run.running(dying) as query:
        assert eventually(lambda: query.failure is not None, 60)
    assert isinstance(query.failure, CrashError)
    assert ticks(run) == {task: [1] for task in TASKS}
    with run.running() as query:
        assert eventually(lambda: (run.checkpoint.last_committed_batch() or 0) > ran[0], 30), query.failure
    found = ticks(run)
    assert found == {task: list(range(1, len(found[task]) + 1)) for task in TASKS}


def test_an_app_without_such_timers_runs_no_batch_without_records(make_run: MakeRun) -> None:
    counted = make_run("counted", topologies.counted)
    counted.make_topics({"counted-events": 2, "counted-out": 1})
    counted.run()
    assert counted.checkpoint.last_planned_batch() is None
    passing = make_run("passing", topologies.passing)
    passing.make_topics({"passing-numbers": 1})
    with passing.running() as query:
        for number in range(3):
            passing.produce("passing-numbers", [(b"a", b"%d" % number, NOW_MS)])
            query.settle(30)
    assert (passing.checkpoint.last_committed_batch() or 0) <= 3, "one batch a record, and one to know the timers"
