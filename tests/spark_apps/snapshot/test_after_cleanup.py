"""A snapshot takes a clean-up's tombstones, and the rows that an undo brings back, for changes of the app's batches."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from spark_apps.generations.purged import note_purged, purged_keys
from spark_apps.snapshot.table import SnapshotTable
from state.clock import SystemClock
from state.maintenance.archive import archive_files
from state.maintenance.cleanup import Cleanup
from state.maintenance.cleanup_plan import CleanupOptions
from tests.spark_apps.snapshot.test_job import App, app, spark

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.slow]
__all__ = ["app", "spark"]


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
        return note_purged([(rows, archive_files(tmp_path / "cleanups", topic))], tmp_path / "gen-2"), purged_keys(
            tmp_path / "gen-2"
        )

    assert forgotten(app.store.changelog_topic) == (49, frozenset(kept.keys() - {b"7"}))
    assert forgotten("another-changelog") == (0, frozenset())

    assert cleanup.undo(plan).restored == 49
    app.content = kept
    app.check(app.snapshot()[0])
    assert forgotten(app.store.changelog_topic) == (0, frozenset())
