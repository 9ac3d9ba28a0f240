from __future__ import annotations

from storekeeper.verification.check_verdict import CheckVerdict, together

WELL = CheckVerdict("verify", "rewards-west", True, (), 5, {"rows": 3})
ILL = CheckVerdict("verify", "rewards-east", False, ("copies differ",), 7, {"rows": 4})


def test_parts_pass_together_and_the_one_that_fails_is_named() -> None:
    assert together("rewards", [WELL, WELL]).passed
    found = together("rewards", [WELL, ILL])
    assert (found.passed, found.reasons, found.decided_at_ms) == (False, ("rewards-east: copies differ",), 7)
    assert found.details == {"stores": {"rewards-west": {"rows": 3}, "rewards-east": {"rows": 4}}}


def test_the_verdict_on_one_store_is_left_as_it_is() -> None:
    assert together("rewards", [ILL]) is ILL
