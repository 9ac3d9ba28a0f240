from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from storekeeper.verification.check_verdict import CheckVerdict, last_verdict, put_verdict, together

WELL = CheckVerdict("verify", "rewards-west", True, (), 5, {"rows": 3})
ILL = CheckVerdict("verify", "rewards-east", False, ("copies differ",), 7, {"rows": 4})


def test_parts_pass_together_and_the_one_that_fails_is_named() -> None:
    assert together("rewards", [WELL, WELL]).passed
    found = together("rewards", [WELL, ILL])
    assert (found.passed, found.reasons, found.decided_at_ms) == (False, ("rewards-east: copies differ",), 7)
    assert found.details == {"stores": {"rewards-west": {"rows": 3}, "rewards-east": {"rows": 4}}}


def test_the_verdict_on_one_store_is_left_as_it_is() -> None:
    assert together("rewards", [ILL]) is ILL


def test_the_last_verdict_counts_also_after_a_clock_that_was_ahead(tmp_path: Path) -> None:
    for verdict in (replace(WELL, decided_at_ms=86_400_000), replace(WELL, passed=False)):
        path = put_verdict(tmp_path, verdict)
        assert last_verdict(path.parent) == verdict
