"""Every test file keeps to its budget of processor time, by the record of `make test-durations`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.test_tree import ROOT, tracked
from tests.durations import Duration, read_record

WHOLE_S = 1220
"""Two processors have 1,800 seconds in 15 minutes, of which lint, types and the collection of tests take 200."""
FILE_S = 30
LARGER = {
    "tests/integration/test_running_platform.py": (250, "the one platform with all apps, driven by Airflow"),
    "tests/integration/test_node.py": (50, "nodes are started, killed and cut off, each as a process"),
    "tests/faults/test_restore.py": (35, "restores of large changelogs are killed and damaged"),
    "tests/faults/test_attacks.py": (40, "a real node is attacked over its socket"),
    "tests/faults/test_failover.py": (35, "three nodes under load, every fault for two seconds"),
    "tests/state/query/page/test_page.py": (45, "a browser looks at a node's page"),
    "tests/quality/test_table_gate.py": (40, "batches of a staged table go through the gate on Spark"),
    "tests/spark_apps/snapshot/test_job.py": (50, "snapshots of a real changelog on Spark, over generations"),
}
"""Larger budgets of a file, and why."""


def complaints(record: dict[str, Duration], files: set[str]) -> list[str]:
    """What is wrong with a record, each with what to do."""
    recorded = {name for name in record if not name.startswith("fixture ")}
    wrong = []
    if differing := sorted(files ^ recorded):
        there = " ".join(sorted(files - recorded)) or min(files)
        wrong.append(f'not recorded, or gone: {", ".join(differing)}. Run: make test-durations FILES="{there}"')
    for name in sorted(recorded):
        used, (budget, _) = record[name].processor_s, LARGER.get(name, (FILE_S, ""))
        if used > budget:
            wrong.append(f"{name} takes {used:.0f} s of {budget}: make it cheaper, or mark its longest test `long`")
    whole = sum(duration.processor_s for duration in record.values())
    if whole > WHOLE_S:
        wrong.append(f"all files take {whole:.0f} s of {WHOLE_S}: make the largest cheaper, or mark tests `long`")
    return wrong


def test_the_record_is_complete_and_within_the_budgets() -> None:
    files = {str(path.relative_to(ROOT)) for path in tracked("tests/test_*.py", "tests/**/test_*.py")}
    assert complaints(read_record(), files) == []


def test_every_larger_budget_is_that_of_a_file() -> None:
    assert [name for name in LARGER if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ({"tests/test_a.py": 1.0}, "not recorded, or gone: tests/test_b.py"),
        (
            {"tests/test_a.py": 1.0, "tests/test_b.py": 1.0, "tests/test_c.py": 1.0},
            "not recorded, or gone: tests/test_c",
        ),
        (
            {"tests/test_a.py": 1.0, "tests/test_b.py": FILE_S + 1.0},
            f"tests/test_b.py takes {FILE_S + 1} s of {FILE_S}",
        ),
        (
            {"tests/test_a.py": 1.0, "tests/test_b.py": 1.0, "fixture broker": 2000.0},
            f"all files take 2002 s of {WHOLE_S}",
        ),
    ],
)
def test_what_is_missing_or_takes_too_long_is_told(record: dict[str, float], complaint: str) -> None:
    durations = {name: Duration(processor_s=seconds) for name, seconds in record.items()}
    (told,) = complaints(durations, {"tests/test_a.py", "tests/test_b.py"})
    assert told.startswith(complaint)


def test_what_runs_instead_of_a_long_test_exists() -> None:
    said = [
        found for path in tracked("tests/*.py", "tests/**/*.py")
        for found in re.findall(r"mark\.long\(\s*\"([^\"]*)\"", path.read_text())
    ]  # fmt: skip
    assert said
    names = {name for text in said for name in re.findall(r"[\w/]*test_\w+\.py", text)}
    missing = [name for name in names if not list((ROOT / "tests").rglob(Path(name).name)) and name]
    assert missing == []
    assert [text for text in said if "test_" not in text] == []
