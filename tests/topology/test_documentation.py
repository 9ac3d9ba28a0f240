"""What the documentation shows is run, and what it names exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from storekeeper.topology import KStream, KTable, TopologyTestDriver

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/topologies.md").read_text()


def test_the_code_in_the_documentation_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/reference/topologies.md", "exec", dont_inherit=True), {"__name__": "documentation"})  # noqa: S102 (our own)


def test_every_operator_is_documented() -> None:
    for kind in (KStream, KTable):
        public = [name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")]
        assert [name for name in public if f"`{name}" not in PAGE and name != "by_key"] == []


def test_the_driver_is_documented() -> None:
    for name in ("pipe", "append", "run", "advance", "read", "rows", "store", "crash_at"):
        assert callable(getattr(TopologyTestDriver, name))
        assert f"{name}`" in PAGE or f"{name}(" in PAGE


def test_the_methods_of_stores_are_those_that_there_are() -> None:
    for module, kind, methods in re.findall(r"^\| `\w+` \| `(\w+)\.(\w+)` \| (.*) \|$", PAGE, flags=re.MULTILINE):
        store = getattr(importlib.import_module(f"storekeeper.stores.{module}"), kind)
        named = [name for name in re.findall(r"`(\w+)`", methods) if not name.endswith("_")]
        assert len(named) > 3
        assert [name for name in named if not hasattr(store, name)] == []
