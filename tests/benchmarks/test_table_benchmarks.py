"""The benchmarks of tables run, briefly: every copy is sound, every join complete, and each measure is there."""

from __future__ import annotations

import pytest

from tests.benchmarks.test_http_benchmarks import smoke


def test_reads_of_the_past() -> None:
    printed = smoke("as_of")
    for read in ("what a key had at a time", "the rows of a time", "point-in-time join of 100 points"):
        assert f"{read}, 0.03 million changes: " in printed
    assert "not measured" not in printed


@pytest.mark.long("tests/snapshots/test_history.py has the steps of a snapshot")
@pytest.mark.broker
def test_snapshots() -> None:
    printed = smoke("snapshot")
    for step in ("append", "fold", "seal"):
        for share in ("the first", "0.1 % changed", "100 % changed"):
            assert f"{step}: 0.002 million rows, {share}: " in printed


@pytest.mark.long("tests/verification/test_injected_faults.py has the parts of a verification")
@pytest.mark.broker
def test_verification() -> None:
    printed = smoke("verify")
    for part in ("every file against its seal", "proof of the rows", "table against changelog", "history against"):
        assert part in printed
