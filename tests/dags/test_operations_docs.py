"""The documents name every DAG and param, and quote messages that exist."""

from __future__ import annotations

import re
from pathlib import Path

from state.program import ExitCode

PROJECT = Path(__file__).parents[2]
REFERENCE = (PROJECT / "docs" / "reference" / "dags.md").read_text("utf-8")
TROUBLESHOOTING = (PROJECT / "docs" / "how-to" / "troubleshoot.md").read_text("utf-8")
DAGS = {path.stem: path.read_text("utf-8") for path in (PROJECT / "dags").glob("*.py") if path.stem != "__init__"}


def test_every_dag_and_param_is_documented() -> None:
    for dag_id, source in DAGS.items():
        assert f"| `{dag_id}` |" in REFERENCE
        for param in re.findall(r'"(\w+)": Param\(', source):
            assert re.search(rf"\| `{dag_id}` \|.*`{param}`:", REFERENCE), param


def test_every_quoted_message_is_one_of_the_operators() -> None:
    folders = ("dags", "deploy/control", "storekeeper_provider")
    sources = "".join(path.read_text("utf-8") for name in folders for path in (PROJECT / name).rglob("*.py"))
    sources += "".join(code.meaning for code in ExitCode)
    quoted = [part.strip() for text in re.findall(r"\*([a-z][^*]+)\*", TROUBLESHOOTING) for part in text.split("...")]
    assert len(quoted) > 5
    assert [part for part in quoted if part not in sources] == []
