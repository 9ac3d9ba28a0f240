"""A snapshot takes a clean-up's tombstones, and the rows that an undo brings back, for changes of the app's batches."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from storekeeper.cleanup.cleanup import Cleanup
from storekeeper.cleanup.cleanup_plan import CleanupOptions
from storekeeper.cleanup.folder import CleanupFolder
from storekeeper.clock import SystemClock
from tests.snapshots.played_app import App
from tests.snapshots.test_job import app

pytestmark = [pytest.mark.broker]
__all__ = ["app"]


@pytest.mark.long("test_job.py has snapshots with deletions, test_cleanup.py what is deleted and brought back")
def test_deleted_rows_leave_the_snapshot_and_restored_ones_return(app: App, tmp_path: Path) -> None:
    app.write(1, {str(number): "old" for number in range(50)})
    app.commit(1)
    app.check(app.snapshot()[0])

    cleanup = Cleanup(
        app.broker.kafka,
        CleanupFolder(tmp_path / "cleanups", app.store.name),
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

    assert cleanup.undo(plan).restored == 49
    app.content = kept
    app.check(app.snapshot()[0])
