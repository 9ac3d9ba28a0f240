from __future__ import annotations

import os
import time
from pathlib import Path

from storekeeper.engine.restore_progress import Restoring, reporting, restores


def test_a_restore_is_told_while_it_runs_and_leaves_nothing(tmp_path: Path) -> None:
    with reporting(tmp_path) as report:
        report(Restoring("rewards", 3, 40, 100))
        (told,) = restores(tmp_path)
        assert (told.store, told.partition, told.done, told.total) == ("rewards", 3, 40, 100)
    assert list(tmp_path.iterdir()) == []


def test_a_restore_that_awaits_a_transaction_is_told(tmp_path: Path) -> None:
    with reporting(tmp_path) as report:
        report(Restoring("rewards", 3, 0, 0, awaits="rewards-changelog-3"))
        assert restores(tmp_path) == [Restoring("rewards", 3, 0, 0, awaits="rewards-changelog-3")]
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_behind_is_no_restore(tmp_path: Path) -> None:
    left = tmp_path / "host-1.json"
    left.write_text('{"store":"rewards","partition":3,"done":40,"total":100,"eta_s":1.5}')
    assert len(restores(tmp_path)) == 1
    os.utime(left, (time.time() - 61,) * 2)
    assert restores(tmp_path) == []
