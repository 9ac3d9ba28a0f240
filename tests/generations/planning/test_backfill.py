"""The approval of a backfill says what runs."""

from __future__ import annotations

import pytest

from storekeeper.generations.changes.plan import NOTHING_CHANGES, Change, Plan, Verdict, explain_plan
from storekeeper.generations.planning.plan import Input, as_backfill

COPIED = Change("sums", Verdict.MIGRATE, (NOTHING_CHANGES,), conf={"app": "counted", "migrations": [], "copy": True})
BESIDE = Change("tens", Verdict.MIGRATE, (NOTHING_CHANGES, "made by the same generation of counted as sums"))
INPUTS = (Input("sales", 127_192, 7 * 86_400_000, compacted=False), Input("users", 1000, None, compacted=True))


@pytest.mark.parametrize(
    ("accept", "said"),
    [(True, "takes over without a further question"), (False, "stop the hand-over, unless `accept_differences`")],
)
@pytest.mark.parametrize(("since", "where"), [("beginning", "its beginning"), ("2026-01-31T00:00:00Z", "2026-01-31")])
def test_it_names_start_input_retention_stores_and_differences(accept: bool, said: str, since: str, where: str) -> None:
    plan = as_backfill(Plan((COPIED, BESIDE)), since, INPUTS, accept_differences=accept)
    text = explain_plan(plan)
    assert NOTHING_CHANGES not in text
    assert text.count(f"starts empty and reads the input again from {where}") == 2, "of each store"
    assert "input sales: 127,192 records are read; the topic keeps records for 7 days: older ones are gone" in text
    assert "input users: 1,000 records are read; the topic keeps the newest record of each key" in text
    assert said in text
    assert plan.changes[0].conf == {**COPIED.conf, "since": since, "accept_differences": accept}
    assert f'"since":"{since}"' in text


def test_a_store_that_would_break_is_no_backfill() -> None:
    broken = Change("sums", Verdict.BREAKS, ("its key changes",))
    assert as_backfill(Plan((broken,)), "beginning", INPUTS, accept_differences=True) == Plan((broken,))
