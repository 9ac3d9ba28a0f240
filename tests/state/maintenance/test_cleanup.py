"""Clean-ups that were previewed and not run, without a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from state.clock import SystemClock
from state.errors import InvalidArgumentError
from state.kafka.connection import Kafka
from state.maintenance.cleanup import Cleanup
from state.maintenance.cleanup_plan import CleanupOptions, CleanupPlan
from state.maintenance.expiry import no_ages

ID = "20260101T000000000Z"


@pytest.fixture
def cleanup(tmp_path: Path) -> Cleanup:
    plan = CleanupPlan(
        *(ID, "prices", "t", "id", CleanupOptions(5), 10, 5, {0: 3, 1: 4}), *(1000, 2000, 10, 20, no_ages(), (), 2**60)
    )
    (tmp_path / ID).mkdir()
    (tmp_path / ID / "plan.json").write_bytes(plan.to_json())
    return Cleanup(Kafka("127.0.0.1:1"), tmp_path, "prices", "t", clock=SystemClock(), wait=lambda _: None)


def test_a_preview_that_was_not_run_has_nothing_to_report_or_undo(cleanup: Cleanup) -> None:
    plan = cleanup.plan(ID)
    for ask in (cleanup.report, cleanup.undo):
        with pytest.raises(InvalidArgumentError, match=f"never run.*`storekeeper cleanup run prices {ID}`"):
            ask(plan)


def test_an_unknown_one_names_those_that_there_are(cleanup: Cleanup) -> None:
    with pytest.raises(InvalidArgumentError, match=f"no clean-up 'other': there are {ID}"):
        cleanup.plan("other")
