"""Every row of the table in storekeeper.changelog.restore."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storekeeper.changelog.checkpoint import Checkpoint
from storekeeper.changelog.restore import LogState, RestoreAction, RestorePlan, RestoreReason, plan_restore

DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000
LOG = LogState("t", "id-1", 0, start_offset=100, end_offset=200, delete_retention_ms=DAY_MS)
CHECKPOINT = Checkpoint("t", "id-1", 0, 150, NOW_MS - 1000)


def plan(checkpoint: Checkpoint | None, *, empty: bool = False, log: LogState = LOG) -> RestorePlan:
    behind_ms = 0 if checkpoint is None else NOW_MS - checkpoint.whole_at_ms
    return plan_restore(checkpoint, empty=empty, log=log, behind_ms=behind_ms)


def test_a_checkpoint_that_fits_is_resumed() -> None:
    assert plan(CHECKPOINT) == RestorePlan(RestoreAction.RESUME, RestoreReason.CHECKPOINT, 150, 200)


def test_an_empty_store_replays_the_log_from_its_start() -> None:
    assert plan(None, empty=True) == RestorePlan(RestoreAction.REPLAY, RestoreReason.EMPTY, 100, 200)


@pytest.mark.parametrize(
    ("checkpoint", "log", "reason"),
    [
        (None, LOG, RestoreReason.NO_CHECKPOINT),
        (replace(CHECKPOINT, topic="other"), LOG, RestoreReason.FOREIGN_CHECKPOINT),
        (replace(CHECKPOINT, partition=1), LOG, RestoreReason.FOREIGN_CHECKPOINT),
        (replace(CHECKPOINT, topic_id="id-0"), LOG, RestoreReason.TOPIC_RECREATED),
        (replace(CHECKPOINT, offset=201), LOG, RestoreReason.AHEAD_OF_LOG),
        (replace(CHECKPOINT, offset=99), LOG, RestoreReason.BELOW_LOG_START),
        (replace(CHECKPOINT, offset=5), replace(LOG, start_offset=0, end_offset=0), RestoreReason.AHEAD_OF_LOG),
        (replace(CHECKPOINT, whole_at_ms=NOW_MS - DAY_MS), LOG, RestoreReason.TOMBSTONES_EXPIRED),
    ],
)
def test_rows_that_do_not_fit_the_log_are_wiped(
    checkpoint: Checkpoint | None, log: LogState, reason: RestoreReason
) -> None:
    answer = plan(checkpoint, log=log)
    assert answer == RestorePlan(RestoreAction.WIPE, reason, log.start_offset, log.end_offset)


@pytest.mark.parametrize("offset", [100, 200])
def test_both_ends_of_the_log_are_resumed(offset: int) -> None:
    assert plan(replace(CHECKPOINT, offset=offset)).action is RestoreAction.RESUME


def test_old_rows_stay_good_while_nothing_was_written_after_them() -> None:
    old = replace(CHECKPOINT, offset=200, whole_at_ms=0)
    assert plan(old).action is RestoreAction.RESUME


def test_one_millisecond_before_tombstones_expire_the_rows_are_kept() -> None:
    assert plan(replace(CHECKPOINT, whole_at_ms=NOW_MS - DAY_MS + 1)).action is RestoreAction.RESUME


def test_completion_is_judged_by_position_over_a_gap() -> None:
    answer = plan(CHECKPOINT)
    assert not answer.completed_at(199)
    assert answer.completed_at(200)
    assert answer.completed_at(201)
    assert answer.remaining == 50
