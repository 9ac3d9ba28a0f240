"""What a long test names to run instead of it exists."""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.test_tree import ROOT, tracked


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
