"""On real Spark and Kafka: an app whose local stores are wiped begins with its tables, and its totals are exact."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from harness.broker import Broker
from storekeeper.apps.topology_app import Describe
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.checkpoint import CommittedBatch
from storekeeper.serdes.keys.windows import decode_window_row_key
from storekeeper.snapshots.job import Snapshot, progress_after
from tests.engine import seeded_tasks
from tests.engine.seeded_tasks import EVENTS, LoggedTables
from tests.engine.spark_run import SparkRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]

NOW_MS = int(time.time() * 1000) // 60_000 * 60_000 - 3_600_000
PARTITIONS = 2


class Shop:
    """The app, and all events that it was given."""

    def __init__(self, run: SparkRun, keys: int) -> None:
        self.run, self._keys = run, keys
        tables = LoggedTables.of(run.settings)
        self.log = tables.log
        run.context = replace(run.context, seeds=tables)
        self._totals: Counter[bytes] = Counter()
        self._windows: Counter[tuple[bytes, int]] = Counter()
        self._batches = 0

    def give(self) -> None:
        """One event of each key."""
        at_ms = NOW_MS + self._batches * 30_000
        self._batches += 1
        keys = [b"k%d" % number for number in range(self._keys)]
        self.run.produce(EVENTS, ((key, b"%d" % self._batches, at_ms) for key in keys))
        for key in keys:
            self._totals[key] += self._batches
            self._windows[key, at_ms // 60_000 * 60_000] += 1
        self.run.run()

    def snapshot(self) -> None:
        """What the job of snapshots does."""
        context, settings = self.run.context, self.run.settings
        batch = CommittedBatch.of(context.checkpoint, settings.generation)
        assert batch is not None
        progress = progress_after(settings.kafka, context.checkpoint, context.spec.name, batch)
        for store in context.spec.stores:
            Snapshot(settings, store, context.spec, now_ms=SystemClock().now_ms()).take(batch, progress)

    def wipe(self) -> None:
        """The app runs on another machine."""
        shutil.rmtree(self.run.settings.state_dir)
        self.log.unlink(missing_ok=True)

    def check(self) -> None:
        """Compares the rows with what the events add up to."""
        rows = self.run.rows("seeded-totals-changelog")
        assert {key: orjson.loads(value)["total"] for key, value in rows.items()} == self._totals
        counts = {decode_window_row_key(key)[:2]: int(value) for key, value in
                  self.run.rows("seeded-windows-changelog").items()}  # fmt: skip
        assert counts == self._windows

    def said(self) -> str:
        """What workers have logged since the stores were wiped."""
        return self.log.read_text() if self.log.exists() else ""


@pytest.fixture(
    params=[
        pytest.param((seeded_tasks.soon_far_behind, 200), id="100"),
        pytest.param(
            (seeded_tasks.described, 240_000),
            id="200000",
            marks=pytest.mark.long("test_seeded_tasks.py has a topology where 100 records are many"),
        ),
    ]
)
def shop(request: pytest.FixtureRequest, broker: Broker, spark_session: SparkSession, tmp_path: Path) -> Shop:
    describe: Describe
    describe, keys = request.param
    run = SparkRun("seeded", describe, broker, spark_session, tmp_path / "run", max_offsets_per_trigger=500_000)
    run.make_topics({EVENTS: PARTITIONS})
    return Shop(run, keys)


def test_wiped_stores_begin_with_the_tables(shop: Shop) -> None:
    for _ in range(2):
        shop.give()
    shop.snapshot()
    shop.give()
    shop.wipe()
    shop.give()
    shop.check()
    said = shop.said()
    assert said.count("store_seeded") == 2 * PARTITIONS, said
    assert "store_not_seeded" not in said
    shop.give()  # on the stores that are there now
    shop.check()
    assert shop.said() == said


def test_stores_are_replayed_if_a_table_was_changed(shop: Shop) -> None:
    for _ in range(2):
        shop.give()
    shop.snapshot()
    shop.wipe()
    tables = Path(str(shop.run.settings.tables))
    file = next((tables / "totals").rglob("*.parquet"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    shop.give()
    shop.check()
    said = shop.said()
    assert said.count("store_not_seeded") == PARTITIONS, said
    assert said.count("store_seeded") == PARTITIONS, "the other store's table is as it was"
    assert "was changed" in said
