"""A suite as a Checkpoint: what its actions do, in which order, and what happens if one of them can't."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import great_expectations as gx
import great_expectations.expectations as gxe
import pandas as pd
import pytest

from storekeeper.apps.checked_table import CheckedColumn, CheckedTable
from storekeeper.quality.checkpoint import Afterwards, run_checkpoint
from storekeeper.quality.errors import ValidationError
from storekeeper.quality.suite import CheckedFrame, for_pandas, suite_of
from storekeeper.quality.verdict import Outcome, Status, Verdict

CITIES = pd.DataFrame({"City": ["Pune", "Pune", None, "Ulhasnagar"]})


def suite(*expectations: Any) -> gx.ExpectationSuite:
    return gx.ExpectationSuite("cities", expectations=list(expectations))


def known(column: str = "City") -> Any:
    return gxe.ExpectColumnValuesToBeInSet(
        column=column, value_set=["Pune"], notes="City is known.", meta={"rule": "values"}
    )


def verdict(outcomes: tuple[Outcome, ...]) -> Verdict:
    return Verdict("cities", Status.PASSED, 1, 1, 4, 5, outcomes)


def test_the_verdict_is_taken_after_the_data_docs_and_then_told(tmp_path: Path) -> None:
    happened: list[Any] = []

    def take(outcomes: tuple[Outcome, ...]) -> Verdict:
        happened.append((tmp_path / "docs" / "index.html").is_file())
        happened.append(outcomes)
        return verdict(outcomes)

    missing = gxe.ExpectColumnValuesToNotBeNull(column="City", notes="City is always there.")
    run_checkpoint(CITIES, suite(known(), missing), Afterwards(take, tmp_path / "docs", happened.append))
    docs, outcomes, verdicts = happened
    assert docs
    assert [(each.passed, each.failing_rows, each.rule) for each in outcomes] == [
        (False, 1, "values"),
        (False, 1, ""),
    ]
    assert (verdicts["table"], verdicts["reasons"]) == (
        "cities",
        ["City is known. Failing rows: 1.", "City is always there. Failing rows: 1."],
    )


def test_a_line_break_behind_an_allowed_text_is_another_text() -> None:
    column = CheckedColumn("City", "string", allowed=("Pune", "Goa"), any_case=True)
    table = CheckedTable("cities", (column,))
    taken: list[tuple[Outcome, ...]] = []
    for texts in (["PUNE", "goa"], ["Pune\n"], ["Pune\nGoa"]):
        checks = suite_of(table, CheckedFrame(["City"], frozenset({"City"}), for_pandas))
        run_checkpoint(pd.DataFrame({"City": texts}), checks, Afterwards(taken.append))
    assert [all(outcome.passed for outcome in outcomes) for outcomes in taken] == [True, False, False]


def test_nobody_is_told_if_nothing_was_decided() -> None:
    verdicts: list[Any] = []
    run_checkpoint(CITIES, suite(known()), Afterwards(lambda _: None, notify=verdicts.append))
    assert verdicts == []


def test_a_hook_that_fails_is_logged_and_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("no network")

    run_checkpoint(CITIES, suite(known()), Afterwards(verdict, notify=fail))
    said = capsys.readouterr()
    assert "notification_failed" in said.out + said.err


def test_what_can_not_be_evaluated_decides_nothing_and_leaves_the_data_docs(tmp_path: Path) -> None:
    taken: list[Any] = []
    with pytest.raises(
        ValidationError, match="expect_column_values_to_be_in_set on Town couldn't be evaluated"
    ) as found:
        run_checkpoint(CITIES, suite(known("Town")), Afterwards(taken.append, tmp_path / "docs"))
    assert "Ulhasnagar" not in str(found.value)
    assert taken == []
    assert not (tmp_path / "docs").exists()
