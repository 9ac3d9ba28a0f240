"""The documents name every DAG and param, and quote messages that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from storekeeper.program import ExitCode

PROJECT = Path(__file__).parents[2]
REFERENCE = (PROJECT / "docs" / "reference" / "dags.md").read_text("utf-8")
TROUBLESHOOTING = (PROJECT / "docs" / "how-to" / "troubleshoot.md").read_text("utf-8")
DAGS = {
    path.stem: path.read_text("utf-8")
    for path in (PROJECT / "storekeeper_provider" / "dags").glob("*.py")
    if path.stem != "__init__"
}


def test_every_dag_and_param_is_documented() -> None:
    for dag_id, source in DAGS.items():
        assert f"| `{dag_id}` |" in REFERENCE
        for param in re.findall(r'"(\w+)": Param\(', source):
            assert re.search(rf"\| `{dag_id}` \|.*`{param}`:", REFERENCE), param


def literals(source: str) -> str:
    """The texts in a module, as they are when it runs: over several lines, and with gaps where values go."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
        elif isinstance(node, ast.JoinedStr):
            found.append("{}".join(str(part.value) for part in node.values if isinstance(part, ast.Constant)))
    return "\n".join(found)


def test_every_quoted_message_is_one_of_the_product() -> None:
    folders = ("storekeeper", "storekeeper_provider")
    sources = "".join(literals(path.read_text("utf-8")) for name in folders for path in (PROJECT / name).rglob("*.py"))
    sources += "".join(code.meaning for code in ExitCode)
    quoted = [part.strip() for text in re.findall(r"\*([a-z][^*]+)\*", TROUBLESHOOTING) for part in text.split("...")]
    assert len(quoted) > 5
    assert [part for part in quoted if part not in sources] == []
