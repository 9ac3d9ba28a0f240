"""Every row of the table in storekeeper.changelog.restore."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storekeeper.changelog.checkpoint import Checkpoint
from storekeeper.changelog.restore import (
    SEED_MARGIN_MS,
    LogState,
    RestoreAction,
    RestorePlan,
    RestoreReason,
    Seed,
    SeedRefusal,
    plan_restore,
    seed_refusal,
)

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
        (replace(CHECKPOINT, whole_at_ms=NOW_MS + DAY_MS), LOG, RestoreReason.TOMBSTONES_EXPIRED),
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


SEED = Seed("t", "id-1", 0, 150, NOW_MS - 1000, 20)


@pytest.mark.parametrize(
    ("seed", "log", "expected"),
    [
        (SEED, LOG, None),
        (replace(SEED, topic="other"), LOG, SeedRefusal.FOREIGN),
        (replace(SEED, partition=1), LOG, SeedRefusal.FOREIGN),
        (replace(SEED, topic_id="id-0"), LOG, SeedRefusal.TOPIC_RECREATED),
        (replace(SEED, offset=200), LOG, None),
        (replace(SEED, offset=201), LOG, SeedRefusal.AHEAD_OF_LOG),
        (replace(SEED, offset=99), LOG, SeedRefusal.BELOW_LOG_START),
        (SEED, replace(LOG, start_offset=151), SeedRefusal.BELOW_LOG_START),
        (replace(SEED, whole_at_ms=NOW_MS - DAY_MS + SEED_MARGIN_MS + 1), LOG, None),
        (replace(SEED, whole_at_ms=NOW_MS - DAY_MS + SEED_MARGIN_MS), LOG, SeedRefusal.TOO_OLD),
        (replace(SEED, whole_at_ms=0, offset=200), LOG, None),
        (replace(SEED, whole_at_ms=NOW_MS + SEED_MARGIN_MS), LOG, None),
        (replace(SEED, whole_at_ms=NOW_MS + SEED_MARGIN_MS + 1), LOG, SeedRefusal.FROM_THE_FUTURE),
        (replace(SEED, rows=49), LOG, None),
        (replace(SEED, rows=50), LOG, SeedRefusal.NO_GAIN),
    ],
)
def test_a_seed_must_fit_the_log_and_be_young(seed: Seed, log: LogState, expected: SeedRefusal | None) -> None:
    assert seed_refusal(seed, log, position=100, now_ms=NOW_MS) is expected


@pytest.mark.parametrize("position", [130, 140, 150, 190])
def test_a_seed_is_no_use_to_a_store_that_is_nearly_as_far(position: int) -> None:
    assert seed_refusal(SEED, LOG, position=position, now_ms=NOW_MS) is SeedRefusal.NO_GAIN
