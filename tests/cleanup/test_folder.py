"""Plans and archives of clean-ups, in local folders and in stores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storekeeper.cleanup.folder import CleanupFolder
from storekeeper.errors import InvalidArgumentError
from storekeeper.locations import Location
from tests.cleanup.plans import ID, PLAN


@pytest.fixture
def folder(place: Location) -> CleanupFolder:
    made = CleanupFolder(place, "prices")
    made.put_plan(PLAN)
    return made


def test_an_unknown_one_names_those_that_there_are(folder: CleanupFolder) -> None:
    assert folder.plan(ID) == PLAN
    for other in ("other", f"../prices/{ID}", ""):
        with pytest.raises(InvalidArgumentError, match=f"no clean-up '{other}': there are {ID}"):
            folder.plan(other)


def test_the_time_for_an_undo_begins_with_the_archive(folder: CleanupFolder) -> None:
    assert folder.undo_until_ms(PLAN) is None
    for now_ms in (5000, 6000):  # a run that was killed goes on later
        folder.archive(PLAN).begin(now_ms)
        assert folder.undo_until_ms(PLAN) == 5000 + PLAN.undo_ms


def test_archives_are_forgotten_once_they_can_not_be_undone(folder: CleanupFolder) -> None:
    young = replace(PLAN, cleanup_id="20260102T000000000Z")
    never_run = replace(PLAN, cleanup_id="20260103T000000000Z")
    for plan in (young, never_run):
        folder.put_plan(plan)
    for plan, begun_ms in ((PLAN, 0), (young, 1)):
        folder.archive(plan).begin(begun_ms)
        folder.archive(plan).put(0, [])
    assert folder.forget_old(PLAN.undo_ms - 1) == []
    assert folder.forget_old(PLAN.undo_ms) == [ID]
    assert folder.forget_old(PLAN.undo_ms) == []
    assert [folder.archive(plan).exists(0) for plan in (PLAN, young)] == [False, True]
