"""A snapshot takes a clean-up's tombstones, and the rows that an undo brings back, for changes of the app's batches."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from storekeeper.changelog.headers import BATCH_TIME
from storekeeper.changelog.position import Position
from storekeeper.changelog.scan import Changelog
from storekeeper.cleanup.cleanup import Cleanup
from storekeeper.cleanup.cleanup_plan import CleanupOptions
from storekeeper.cleanup.folder import CleanupFolder
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint, TimesBesideBatches
from storekeeper.erasure.changelog import KafkaErasedLog
from storekeeper.erasure.keys import ErasedKeys
from storekeeper.snapshots.history_reads import StoreHistory
from storekeeper.snapshots.key_changes import changes_of_key
from storekeeper.snapshots.sql import query
from storekeeper.stores.store_definitions import ServedKind
from tests.local_tables import local_table
from tests.snapshots.played_app import App, time_of
from tests.snapshots.test_job import app

pytestmark = [pytest.mark.broker]
__all__ = ["app"]


def cleanup_of(app: App, folder: Path) -> Cleanup:
    """As the command makes it."""
    return Cleanup(
        app.broker.kafka,
        CleanupFolder(folder / "cleanups", app.store.name),
        app.store.name,
        app.store.changelog_topic,
        clock=SystemClock(),
        wait=threading.Event().wait,
        times=TimesBesideBatches(BatchCheckpoint(app.settings.checkpoint_dir(app.store.app)), SystemClock()),
    )


@pytest.mark.long("test_job.py has snapshots with deletions, test_cleanup.py what is deleted and brought back")
def test_deleted_rows_leave_the_snapshot_and_restored_ones_return(app: App, tmp_path: Path) -> None:
    app.write(1, {str(number): "old" for number in range(50)})
    app.commit(1)
    app.check(app.snapshot()[0])

    cleanup = cleanup_of(app, tmp_path)
    plan = cleanup.preview(CleanupOptions(1, canary_share=0, tombstones_per_s=1e6))
    app.write(2, {"7": "refreshed"})
    app.commit(2)
    cleanup.archive(plan)
    assert cleanup.delete(plan).deleted == 49
    kept = dict(app.content)
    app.content = {b"7": kept[b"7"]}
    app.check(app.snapshot()[0])

    assert cleanup.undo(plan).restored == 49
    app.content = kept
    app.check(app.snapshot()[0])


def test_a_row_that_comes_back_while_it_is_deleted_is_there_in_what_became_of_it(app: App, tmp_path: Path) -> None:
    """The batch was planned before the deletion, and writes after it."""
    app.write(1, {"a": "old", "b": "old"})
    app.commit(1)
    app.snapshot()
    path = app.settings.checkpoint_dir(app.store.app)
    BatchCheckpoint(path).plan(2, Position({"pos": {0: 10}}), Position({"pos": {0: 20}}), time_of(2, 1))
    cleanup = cleanup_of(app, tmp_path)
    plan = cleanup.preview(CleanupOptions(1, canary_share=0, tombstones_per_s=1e6))
    cleanup.archive(plan)
    assert cleanup.delete(plan).deleted == 2
    app.write(2, {"a": "again"})
    app.commit(2)
    app.snapshot()
    history = StoreHistory.beside(local_table(app.settings, app.store.name))
    assert history is not None
    newest, *_ = changes_of_key(history, b"a", most=9)
    assert newest.fields is not None
    tables = app.settings.delta_table(app.store.name).parent
    last = "SELECT key, arg_max(deleted, changed_at) FROM words_changes GROUP BY key ORDER BY key"
    assert query(tables, last).rows == (("a", False), ("b", True))
    erased = KafkaErasedLog(app.broker.kafka, app.store.changelog_topic, SystemClock(), time.sleep, 0, lambda: 77)
    assert erased.delete(ErasedKeys(ServedKind.KEY_VALUE, (b"a",)), "e") == 1
    log = Changelog(app.broker.kafka, app.store.changelog_topic)
    (deletion,) = (
        record
        for partition in log.partitions
        for record in log.scan(partition, 0, log.stable_end(partition))
        if record.action_of("e") is not None
    )
    assert dict(deletion.headers)[BATCH_TIME] == b"77"
