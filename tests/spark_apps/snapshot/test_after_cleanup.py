"""A snapshot takes a clean-up's tombstones, and the rows that an undo brings back, for changes of the app's batches;
and what is made of it forgets what was deleted.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from spark_apps.generations.purged import gone_rows, note_purged, purged_keys
from spark_apps.processor.packing import pack
from spark_apps.processor.records import SourceRecord
from spark_apps.processor.seeding import STATE_DDL, forget, unpack_state
from spark_apps.processor.state import MemoryTaskState
from spark_apps.processor.task import TaskPlan, run_task

from spark_apps.generations.migration import Chain
from spark_apps.generations.seeding import state_keys
from spark_apps.snapshot.table import SnapshotTable
from spark_apps.spec import same_key
from state.clock import SystemClock
from state.maintenance.archive import archive_files
from state.maintenance.cleanup import Cleanup
from state.maintenance.cleanup_plan import CleanupOptions
from tests.integration.counted_app import BY_LETTER, COUNTED, EVENTS, SUMS, Counted, by_first_letter, row
from tests.spark_apps.snapshot.test_job import App, app, spark

pytestmark = [pytest.mark.spark, pytest.mark.broker]
__all__ = ["app", "spark"]


@pytest.mark.long("test_job.py has snapshots with deletions, test_cleanup.py what is deleted and brought back")
def test_deleted_rows_leave_the_snapshot_and_restored_ones_return(app: App, tmp_path: Path) -> None:
    app.write(1, {str(number): "old" for number in range(50)})
    app.commit(1)
    app.check(app.snapshot()[0])

    cleanup = Cleanup(
        app.broker.bootstrap,
        tmp_path / "cleanups",
        app.store.name,
        app.store.changelog_topic,
        clock=SystemClock(),
        wait=threading.Event().wait,
    )
    plan = cleanup.preview(CleanupOptions(1, canary_share=0, tombstones_per_s=1e6))
    app.write(2, {"7": "refreshed"})
    app.commit(2)
    cleanup.archive(plan)
    assert cleanup.delete(plan).deleted == 49
    kept = dict(app.content)
    app.content = {b"7": kept[b"7"]}
    app.check(app.snapshot()[0])

    def forgotten(topic: str) -> tuple[int, frozenset[bytes]]:
        """What a generation that is seeded from the snapshot now has forgotten."""
        rows = SnapshotTable(app.spark, app.settings.delta_table(app.store.name), app.store).rows()
        files = archive_files(tmp_path / "cleanups", topic)
        count = note_purged([gone_rows(rows, files)] if files else [], tmp_path / "gen-2")
        return count, purged_keys(tmp_path / "gen-2")

    assert forgotten(app.store.changelog_topic) == (49, frozenset(kept.keys() - {b"7"}))
    assert forgotten("another-changelog") == (0, frozenset())

    assert cleanup.undo(plan).restored == 49
    app.content = kept
    app.check(app.snapshot()[0])
    assert forgotten(app.store.changelog_topic) == (0, frozenset())


def test_a_processors_state_forgets_what_was_deleted_and_nothing_else(spark: SparkSession) -> None:
    """Of a store whose keys have changed: its state has those of version 1, beside timers and progress."""
    task, changelogs = MemoryTaskState(), {store.name: store.changelog_topic for store in COUNTED.stores}
    plan = TaskPlan("counted", (EVENTS,), changelogs, dict.fromkeys(changelogs.values(), 4))
    events = (b"cat", b"dog", b"c|cat", b"cow")
    run_task(Counted(), plan, task, [SourceRecord(EVENTS, 3, at, at, key, b"2") for at, key in enumerate(events)])
    state = spark.createDataFrame([(3, bytearray(pack([*task.rows.items()])))], STATE_DDL)

    deleted = spark.createDataFrame(
        [
            (bytearray(key), bytearray(value))
            for name in (b"cat", b"dog")
            for key, value in by_first_letter(name, row(name, 2))
        ],
        "_key binary, _value binary",
    )
    own = replace(SUMS, state_key=same_key)
    keys = deleted.mapInArrow(partial(state_keys, back=Chain((BY_LETTER,)), own=own), "key binary")

    def entries(of: DataFrame) -> dict[bytes, bytes]:
        return {key: value for part in of.collect() for key, value in unpack_state(bytes(part["state"]))}

    assert entries(state).keys() > {b"kcat", b"kdog"}
    assert entries(forget(state, keys)) == {
        key: value for key, value in entries(state).items() if key not in {b"kcat", b"kdog"}
    }
    assert forget(state.limit(0), keys).count() == 1, "a batch begins, too, with nothing"
