"""Clean-ups that were previewed and not run, or begun too long ago, without a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from storekeeper.cleanup.cleanup import Cleanup, CleanupRefusedError
from storekeeper.cleanup.folder import CleanupFolder
from storekeeper.clock import ManualClock
from storekeeper.errors import InvalidArgumentError
from storekeeper.kafka.connection import Kafka
from tests.cleanup.plans import ID, PLAN


@pytest.fixture
def folder(tmp_path: Path) -> CleanupFolder:
    return CleanupFolder(tmp_path, "prices")


@pytest.fixture
def cleanup(folder: CleanupFolder) -> Cleanup:
    clock = ManualClock(6000)
    return Cleanup(Kafka("127.0.0.1:1"), folder, "prices", "t", clock=clock, wait=lambda _: None, times=clock.now_ms)


def test_a_preview_that_was_not_run_has_nothing_to_report_or_undo(cleanup: Cleanup) -> None:
    for ask in (cleanup.report, cleanup.undo):
        with pytest.raises(InvalidArgumentError, match=f"never run.*`storekeeper cleanup run prices {ID}`"):
            ask(PLAN)


@pytest.mark.parametrize("only_canary", [True, False])
def test_nothing_is_deleted_that_can_not_be_brought_back(
    cleanup: Cleanup, folder: CleanupFolder, *, only_canary: bool
) -> None:
    folder.archive(PLAN).begin(6000 - PLAN.undo_ms)
    with pytest.raises(CleanupRefusedError, match="begun too long ago to be undone: plan another one"):
        cleanup.delete(PLAN, only_canary=only_canary)
