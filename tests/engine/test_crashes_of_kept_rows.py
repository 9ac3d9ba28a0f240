"""Rows that live for a time, and versions of rows, wherever a task dies, compared with what plain Python makes."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.broker import Broker
from harness.crashes.points import IN_READ, IN_STORE, IN_TRANSACTION, Kill, Point, Victim
from tests.engine import dying_tasks
from tests.engine.dying_tasks import armed_in
from tests.engine.spark_run import SparkRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]

NOW_MS = int(time.time() * 1000) - 3_600_000  # a topic would soon let older records go
TTL_MS = 10_000
STEP_MS = 400
NUMBERS = 12
"""In each batch: about half of the rows outlive it."""


class Oracle:
    """The app and all that it was given."""

    def __init__(self, run: SparkRun) -> None:
        self.run = run
        self.given = 0
        self.rows: dict[bytes, int] = {}
        self.prices: list[tuple[int, int]] = []
        self.sold: Counter[int] = Counter()

    def give(self) -> None:
        """Appends a batch: numbers, prices that change, and sales of now and of some time ago."""
        numbers = range(self.given, self.given + NUMBERS)
        self.given += NUMBERS
        self.run.produce("passing-numbers", [(_key(n), b"%d" % n, _time_of(n)) for n in numbers])
        self.rows |= {_key(n): n for n in numbers}
        prices = [(_time_of(n), 1000 + n) for n in numbers if n % 4 == 0]
        self.run.produce("versioned-prices", [(b"item", b"%d" % price, at) for at, price in prices])
        self.prices += prices
        sales = [(_time_of(n - back), 1) for n, back in zip(numbers, [0, 5, 1, 7, 2, 30] * NUMBERS, strict=False)]
        self.run.produce("versioned-sales", [(b"item", b"%d" % number, at) for at, number in sales])
        for at, number in sales:
            known = [price for since, price in self.prices if since <= at]
            if known:
                self.sold[known[-1] * number] += 1

    def check(self) -> None:
        """Compares the rows that live, and what was sold, with what must be there."""
        now_ms = _time_of(self.given - 1)
        alive = {key: b"%d" % n for key, n in self.rows.items() if _time_of(n) + TTL_MS > now_ms}
        assert self.run.rows("kept-rows-changelog") == alive
        sold = Counter(int(value or b"") for _, _, value, _ in self.run.records("versioned-out"))
        assert sold == self.sold


def _key(number: int) -> bytes:
    return b"k%d" % (number * 7 % 40)


def _time_of(number: int) -> int:
    return NOW_MS + number * STEP_MS


@pytest.fixture
def oracle(broker: Broker, spark_session: SparkSession, tmp_path: Path) -> Oracle:
    run = SparkRun("kept", dying_tasks.kept_for_a_time, broker, spark_session, tmp_path / "run")
    topics = ("passing-numbers", "versioned-prices", "versioned-sales", "versioned-out")
    run.make_topics(dict.fromkeys(topics, 1))
    oracle = Oracle(run)
    for _ in range(3):
        oracle.give()
        run.run()
    oracle.check()
    return oracle


def die_at(oracle: Oracle, number: int, point: Point) -> None:
    """Lets a task with stores die at a point, and another run go on."""
    armed = armed_in(oracle.run.settings.run_dir)
    oracle.give()
    if point in (Point.RESTORE_BEGUN, Point.RESTORING):
        shutil.rmtree(oracle.run.settings.state_dir / "kept")
    armed.arm(number, Kill(point, Victim.WORKER, stateful=True), broker_pid=0)
    with pytest.raises(Exception, match=r"crashed|worker"):
        oracle.run.run()
    assert armed.is_taken(number), f"no task came to: {point}"
    oracle.run.run()
    oracle.check()


def test_rows_that_live_for_a_time_outlive_a_torn_write_and_a_restore(oracle: Oracle) -> None:
    for number, point in enumerate((Point.APPLY_TORN, Point.RESTORING)):
        die_at(oracle, number, point)


@pytest.mark.long("test_rows_that_live_for_a_time_outlive_a_torn_write_and_a_restore")
@pytest.mark.timeout(1200)
def test_rows_that_live_for_a_time_outlive_a_death_at_every_step(oracle: Oracle) -> None:
    for number, point in enumerate([*IN_TRANSACTION, *IN_READ, Point.PARTLY_WRITTEN, *IN_STORE]):
        die_at(oracle, number, point)
