"""Nothing is lost and nothing doubled, wherever a task dies and whatever becomes of its local stores."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from harness.broker import Broker, start_broker
from harness.crashes.harm import Harm, Stores
from harness.crashes.points import IN_READ, IN_STORE, IN_TRANSACTION, Kill, Point, Victim
from harness.waiting import eventually
from storekeeper.apps.errors import BrokerRefusedError
from storekeeper.changelog.errors import BrokerUnavailableError
from tests.engine import dying_tasks
from tests.engine.dying_tasks import armed_in
from tests.engine.spark_run import SparkRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]

NOW_MS = int(time.time() * 1000) - 3_600_000  # a topic would soon let older records go
NUMBERS = 40
"""In each batch."""


class Oracle:
    """The app and all numbers that it was given."""

    def __init__(self, run: SparkRun) -> None:
        self.run = run
        self.given = 0

    def give(self) -> None:
        """Appends one batch of numbers."""
        numbers = range(self.given, self.given + NUMBERS)
        self.run.produce("shuffled-numbers", [(b"%d" % (n % 7), b"%d" % n, NOW_MS + n) for n in numbers])
        self.given += NUMBERS

    def check(self) -> None:
        """Compares copies, rows and updates with what the numbers add up to."""
        assert Counter(int(value or b"") for _, _, value, _ in self.run.records("shuffled-copies")) == Counter(
            range(self.given)
        )
        rows = {key: orjson.loads(value) for key, value in self.run.rows("shuffled-digits-changelog").items()}
        own = {digit: range(digit, self.given, 10) for digit in (1, 3, 5, 7, 9)}
        assert rows == {
            b"%d" % digit: {"events": len(numbers), "total": sum(numbers)} for digit, numbers in own.items()
        }
        updates: dict[bytes, list[int]] = {}
        for _, key, value, _ in self.run.records("shuffled-out"):
            updates.setdefault(key or b"", []).append(orjson.loads(value or b"")["events"])
        assert updates == {b"%d" % digit: list(range(1, len(numbers) + 1)) for digit, numbers in own.items()}


@pytest.fixture
def oracle(broker: Broker, spark_session: SparkSession, tmp_path: Path) -> Oracle:
    return oracle_on(broker, spark_session, tmp_path)


def oracle_on(broker: Broker, spark_session: SparkSession, tmp_path: Path) -> Oracle:
    """The app on a broker, with its first batch done."""
    run = SparkRun("shuffled", dying_tasks.shuffled, broker, spark_session, tmp_path / "run")
    run.make_topics({"shuffled-numbers": 2, "shuffled-copies": 1, "shuffled-out": 1})
    oracle = Oracle(run)
    oracle.give()
    run.run()
    return oracle


def stores(oracle: Oracle) -> Path:
    """The folder of the tasks of the store `digits`."""
    [folder] = (path for path in (oracle.run.settings.state_dir / "shuffled" / "gen-1").iterdir() if path.is_dir())
    return folder


@pytest.mark.parametrize("point", [*IN_TRANSACTION, *IN_READ, Point.PARTLY_WRITTEN, *IN_STORE])
def test_a_task_may_die_at_every_step(oracle: Oracle, point: Point) -> None:
    armed = armed_in(oracle.run.settings.run_dir)
    oracle.give()
    if point in (Point.RESTORE_BEGUN, Point.RESTORING):
        shutil.rmtree(stores(oracle))
    armed.arm(1, Kill(point, Victim.WORKER, stateful=point in IN_STORE or None), broker_pid=0)
    with pytest.raises(Exception, match=r"crashed|worker"):
        oracle.run.run()
    assert armed.is_taken(1), f"no task came to: {point}"
    oracle.run.run()
    oracle.check()


def test_nothing_is_lost_or_doubled_if_the_broker_dies_between_two_reads(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    broker = start_broker(tmp_path / "broker")

    def come_back() -> None:
        eventually(lambda: armed.is_taken(1), 60, "a task is between two reads")
        broker.kill()  # it may need a moment to be gone
        broker.start()

    try:
        oracle = oracle_on(broker, spark_session, tmp_path)
        armed = armed_in(oracle.run.settings.run_dir)
        oracle.give()
        armed.arm(1, Kill(Point.BETWEEN_READS, Victim.BROKER), broker.pid)
        with ThreadPoolExecutor(1) as pool:
            back = pool.submit(come_back)
            # A task that has read its range may be first to need the broker; and that may take long to come back.
            with suppress(BrokerRefusedError, BrokerUnavailableError):
                oracle.run.run()
            back.result()
        oracle.run.run()
        oracle.check()
    finally:
        broker.stop()


def test_local_stores_heal(oracle: Oracle, tmp_path: Path) -> None:
    harmed = Stores(stores(oracle), tmp_path / "copies", random.Random(1))
    for harm in Harm:
        oracle.give()
        oracle.run.run()
        harmed.keep()
        assert harmed.harm(harm)
        oracle.give()
        oracle.run.run()
        oracle.check()
