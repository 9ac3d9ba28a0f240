"""Nothing in the product turns data into code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.architecture.test_tree import PACKAGES, ROOT, tracked

FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "jsonpickle", "joblib"}
FORBIDDEN_ATTRIBUTES = {
    ("yaml", "load"),
    ("yaml", "unsafe_load"),
    ("yaml", "full_load"),
    ("numpy", "load"),
    ("os", "system"),
}


FROM_TYPES = {"storekeeper/serdes/plain_check.py": ["exec"]}
"""Source made of an app's own types, as the methods of data classes are: names of fields and bounds, never data."""


def findings(source: str) -> list[str]:
    """What a module does that could run data as code."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.partition(".")[0] in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in FORBIDDEN_MODULES:
            found.append(str(node.module))
        elif isinstance(node, ast.Call):
            found += _call(node)
    return found


def _call(node: ast.Call) -> list[str]:
    called = node.func
    if isinstance(called, ast.Name) and called.id in FORBIDDEN_CALLS:
        return [called.id]
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        pair = (called.value.id, called.attr)
        shell = any(word.arg == "shell" and getattr(word.value, "value", True) for word in node.keywords)
        return [".".join(pair)] if pair in FORBIDDEN_ATTRIBUTES or shell else []
    return []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_unpickles_evaluates_or_calls_a_shell(package: str) -> None:
    found = {
        str(path.relative_to(ROOT)): what for path in tracked(f"{package}/*.py") if (what := findings(path.read_text()))
    }
    assert found == {path: what for path, what in FROM_TYPES.items() if path.startswith(f"{package}/")}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from cloudpickle import loads",
        "eval('1')",
        "import yaml\nyaml.load(x)",
        "import subprocess\nsubprocess.run('x', shell=True)",
    ],
)
def test_the_rule_sees_what_it_is_for(source: str) -> None:
    assert findings(source)


_PAGES = ("SECURITY.md", "docs/reference/security-promises.md", "docs/explanation/security.md")


def test_documents_of_security_name_what_exists() -> None:
    named = {
        word
        for document in _PAGES
        for word in (ROOT / document).read_text().split("`")[1::2]
        if word.startswith(("tests/", "docs/"))
    }
    assert named
    assert sorted(word for word in named if not Path(ROOT / word.partition("::")[0]).exists()) == []


def test_settings_that_the_document_names_exist() -> None:
    import re

    from storekeeper.node.settings import NodeSettings
    from storekeeper.ops.settings import PlatformSettings

    known = NodeSettings.model_fields | PlatformSettings.model_fields
    pages = [(ROOT / page).read_text() for page in _PAGES]
    named = {name for page in pages for name in re.findall(r"STOREKEEPER_([A-Z_]+)", page)}
    assert named
    assert sorted(name for name in named if name.lower() not in known) == []
