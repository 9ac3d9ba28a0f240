"""What the page on schema registries shows is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs/how-to/use-a-schema-registry.md").read_text()


def test_the_code_in_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(compile(block, "docs/how-to/use-a-schema-registry.md", "exec", dont_inherit=True), {"__name__": "page"})  # noqa: S102 (our own)
    assert capsys.readouterr().out == "[('alice', Total(sum=Decimal('1.39')))]\n"
