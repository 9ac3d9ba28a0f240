"""Clean-ups that were previewed and not run, without a broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from state.clock import SystemClock
from state.errors import InvalidArgumentError
from state.kafka.connection import Kafka
from state.locations import Location, write_in_one_step
from state.maintenance.archive import Archive
from state.maintenance.cleanup import Cleanup
from state.maintenance.cleanup_plan import CleanupOptions, CleanupPlan
from state.maintenance.expiry import no_ages

ID = "20260101T000000000Z"


@pytest.fixture
def cleanup(place: Location) -> Cleanup:
    plan = CleanupPlan(
        *(ID, "prices", "t", "id", CleanupOptions(5), 10, 5, {0: 3, 1: 4}), *(1000, 2000, 10, 20, no_ages(), (), 2**60)
    )
    write_in_one_step(place / ID / "plan.json", plan.to_json())
    return Cleanup(Kafka("127.0.0.1:1"), place, "prices", "t", clock=SystemClock(), wait=lambda _: None)


def test_a_preview_that_was_not_run_has_nothing_to_report_or_undo(cleanup: Cleanup) -> None:
    plan = cleanup.plan(ID)
    for ask in (cleanup.report, cleanup.undo):
        with pytest.raises(InvalidArgumentError, match=f"never run.*`storekeeper cleanup run prices {ID}`"):
            ask(plan)


def test_an_unknown_one_names_those_that_there_are(cleanup: Cleanup) -> None:
    for other in ("other", f"../prices/{ID}", ""):
        with pytest.raises(InvalidArgumentError, match=f"no clean-up '{other}': there are {ID}"):
            cleanup.plan(other)


def test_archives_are_forgotten_once_they_can_not_be_undone(cleanup: Cleanup, place: Location) -> None:
    old = replace(cleanup.plan(ID), cleanup_id="20250101T000000000Z", undo_until_ms=5)
    write_in_one_step(place / old.cleanup_id / "plan.json", old.to_json())
    for cleanup_id in (ID, old.cleanup_id):
        Archive(place / cleanup_id).put(0, [])
    assert cleanup.forget_old() == [old.cleanup_id]
    assert cleanup.forget_old() == []
    assert [Archive(place / cleanup_id).exists(0) for cleanup_id in (ID, old.cleanup_id)] == [True, False]
