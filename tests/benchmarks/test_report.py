"""The page of figures says what was measured, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.measured_code import code_digest, locked_versions, measured_packages
from benchmarks.report import FOLDER, missing_sentences, pages, tables
from benchmarks.results import RESULTS, Measure
from benchmarks.statements import overview, sentences

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("path", "text"), pages().items(), ids=lambda value: getattr(value, "stem", ""))
def test_a_page_is_made_from_the_results(path: Path, text: str) -> None:
    assert path.read_text() == text, "run `python -m benchmarks.report`"


@pytest.mark.parametrize(("path", "text"), tables().items(), ids=lambda value: getattr(value, "name", ""))
def test_a_table_is_made_from_the_results(path: Path, text: str) -> None:
    assert path.read_text() == text, "run `python -m benchmarks.report`"
    assert text.count("| `") > 5


def test_the_readme_shows_where_others_are_faster() -> None:
    slower = {
        path.stem
        for path in RESULTS.glob("*.json")
        for measure in json.loads(path.read_text())["measures"]
        if measure["unit"].endswith("s/s") and measure.get("peer_name", "").startswith("Kafka") and measure["ratio"] < 1
    }
    assert slower, "a table that shows no loss has to be looked at"
    assert slower <= {row.benchmark for row in overview() if row.in_readme}


def test_each_sentence_says_what_was_measured() -> None:
    assert {page: wanted for page, wanted in missing_sentences().items() if wanted} == {}


COMPARED = re.compile(r"\d+(?:\.\d+)?(?: to \d+(?:\.\d+)?)? times (?:as |that |the )|\d\.\d\d (?:of its|for )")


@pytest.mark.parametrize(
    "page", [path for path in (ROOT / "docs").rglob("*.md") if path.parent != FOLDER and "adr" not in path.parts]
)
def test_no_other_sentence_compares_speeds(page: Path) -> None:
    text = " ".join(page.read_text().split())
    for sentence in sentences().get(str(page.relative_to(ROOT)), []):
        text = text.replace(sentence, "")
    assert COMPARED.findall(text) == [], "say it in benchmarks/statements.py, so that it follows the results"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_result_was_measured_with_the_locked_packages(path: Path) -> None:
    packages, locked = json.loads(path.read_text())["machine"]["packages"], locked_versions()
    assert {name: locked.get(name) for name in packages} == packages, f"run `make bench-{path.stem}` again"
    assert measured_packages(path.stem) <= packages.keys()


@pytest.mark.long("test_a_result_was_measured_with_the_locked_packages: before a release, all are measured again")
@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_no_result_is_older_than_the_code_that_it_measures(path: Path) -> None:
    assert json.loads(path.read_text()).get("code") == code_digest(path.stem), f"run `make bench-{path.stem}` again"


def test_every_result_is_on_one_page() -> None:
    shown = re.findall(r"^## `make bench-(\w+)`$", "".join(pages().values()), flags=re.MULTILINE)
    assert sorted(shown) == sorted(path.stem for path in RESULTS.glob("*.json"))
    assert {path.name for path in FOLDER.iterdir()} == {path.name for path in pages()} | {"README.md"}


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
