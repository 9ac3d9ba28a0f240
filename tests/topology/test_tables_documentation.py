"""What the documentation shows is run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_code_in_the_documentation_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/reference/tables.md").read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/reference/tables.md", "exec"), {})  # noqa: S102 (our own documentation)


def test_the_example_prints_what_its_input_implies(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples/tables.py"), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    assert "  STR1 minutes 0 to 10: 1250000" in printed
    assert "  STR1 minutes 0 to 3: 2" in printed
    assert "  gold: 1" in printed


def test_every_class_that_the_documentation_names_exists() -> None:
    named = set(re.findall(r"`([A-Z]\w+)", (ROOT / "docs/reference/tables.md").read_text()))
    code = "".join(path.read_text() for path in (ROOT / "storekeeper").rglob("*.py"))
    assert {name for name in named if f"class {name}" not in code} == set()
