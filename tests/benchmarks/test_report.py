"""The page of figures says what was measured, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.report import FOLDER, pages
from benchmarks.results import RESULTS, Measure

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("path", "text"), pages().items(), ids=lambda value: getattr(value, "stem", ""))
def test_a_page_is_made_from_the_results(path: Path, text: str) -> None:
    assert path.read_text() == text, "run `python -m benchmarks.report`"


def test_every_result_is_on_one_page() -> None:
    shown = re.findall(r"^## `make bench-(\w+)`$", "".join(pages().values()), flags=re.MULTILINE)
    assert sorted(shown) == sorted(path.stem for path in RESULTS.glob("*.json"))
    assert {path.name for path in FOLDER.glob("*.md")} == {path.name for path in pages()} | {"README.md"}


def test_every_result_has_its_command() -> None:
    modules = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert {json.loads(path.read_text())["benchmark"] for path in RESULTS.glob("*.json")} <= modules


def test_a_ratio_is_the_median_of_the_pairs() -> None:
    measure = Measure("speed", "rows/s", [10, 20, 90], [10, 10, 100], "peer").as_dict()
    assert (measure["ours"], measure["peer"], measure["ratio"]) == (20, 10, 1.0)
    assert measure["spread"] == {"ours": [10, 90], "peer": [10, 100], "ratio": [0.9, 2.0]}


def test_runs_without_their_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Measure("speed", "rows/s", [1, 2], [1], "peer").as_dict()
