"""What the page for new apps shows is what is laid down, and runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from storekeeper.ops.new_app.plan import plan_new_app

PAGE = (Path(__file__).resolve().parents[3] / "docs/tutorial/first-app.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_app_on_the_page_is_the_one_that_is_laid_down() -> None:
    [app] = [file.content for file in plan_new_app("page_views") if file.path == Path("page_views/app.py")]
    assert BLOCKS[0] == app


def test_the_code_on_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but what needs a broker, as one module."""
    page = ModuleType("page_views")
    monkeypatch.setitem(sys.modules, "page_views", page)
    runs = [block for block in BLOCKS if "Producer(" not in block]
    assert len(runs) == 5
    for block in runs:
        exec(compile(block, "docs/tutorial/first-app.md", "exec", dont_inherit=True), vars(page))  # noqa: S102 (our own)
