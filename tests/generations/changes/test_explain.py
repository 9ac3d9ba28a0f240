from __future__ import annotations

from storekeeper.generations.changes.plan import Change, Plan, Verdict, explain_plan

PRICES, REWARDS = Change("prices", Verdict.UNCHANGED), Change("rewards", Verdict.UNCHANGED)


def test_breaking_changes_come_first_and_stores_that_stay_share_a_line() -> None:
    breaks, new = Change("sales", Verdict.BREAKS, ("fields removed",)), Change("orders", Verdict.NEW)
    text = explain_plan(Plan((new, PRICES, REWARDS, breaks)))
    lines = [line for line in text.splitlines() if line]
    assert lines == [
        "**sales** WOULD BREAK",
        "- fields removed",
        "**orders** is new",
        "**prices**, **rewards** stay as they are",
    ]


def test_one_store_that_stays() -> None:
    assert explain_plan(Plan((PRICES,))) == "**prices** stays as it is\n"
