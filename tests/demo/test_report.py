"""The demo's report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from demo.comparison import Difference
from demo.report import DemoReport


def test_it_is_green_only_after_a_comparison_without_differences() -> None:
    report = DemoReport(purchases=1, poison=0)
    assert report.verdict == "unfinished"
    report.conclude([])
    assert report.verdict == "green"
    report.conclude([Difference("shipments", "one", "1 times", "0 times")])
    assert report.verdict == "red"


def test_green_is_the_only_success() -> None:
    verdicts = ("green", "red", "unfinished")
    assert [DemoReport(1, 0, verdict=verdict).is_green for verdict in verdicts] == [True, False, False]


def test_it_counts_all_differences_and_lists_the_first_thousand(tmp_path: Path) -> None:
    report = DemoReport(purchases=1, poison=0)
    report.conclude([Difference("shipments", str(n), "1 times", "0 times") for n in range(1500)])
    report.write(tmp_path / "report.json")
    fields = json.loads((tmp_path / "report.json").read_text())
    assert fields["difference_count"] == 1500
    assert fields["differences_by_check"] == {"shipments": 1500}
    assert len(fields["differences"]) == 1000
    assert fields["differences"][0] == "shipments: 0: expected 1 times, found 0 times"
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_phases_are_measured_even_when_they_fail() -> None:
    report = DemoReport(purchases=1, poison=0)
    times = iter([10.0, 12.5, 20.0, 21.0])
    with report.phase("start", lambda: next(times)):
        pass
    with pytest.raises(ValueError, match="x"), report.phase("publish", lambda: next(times)):
        raise ValueError("x")
    assert report.durations_s == {"start": 2.5, "publish": 1.0}
    assert report.as_json()["duration_s"] == 3.5
