"""Every promise in a table `| promise | test |` names tests, and every named test exists."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.architecture.test_tree import ROOT

PAGES = ("docs/reference/security-promises.md", "docs/reference/delivery-promises.md")
HEADER = "| promise | test |"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows(page: str) -> list[tuple[str, str]]:
    """Each promise of a page with the text that names its tests."""
    _, found, table = page.partition(f"{HEADER}\n")
    assert found, f"the page has no table {HEADER}"
    lines = table.splitlines()[1:]
    end = next((at for at, line in enumerate(lines) if not line.startswith("|")), len(lines))
    cells = [line.strip("|").split("|") for line in lines[:end]]
    return [(promise.strip(), tests.strip()) for promise, tests in cells]


def mistakes(page: str) -> list[str]:
    """What is wrong with a page's table."""
    found: list[str] = []
    for promise, text in rows(page):
        named = TEST.findall(text)
        if not named or TEST.sub("", text).strip(", "):
            found.append(f"{promise}: the second column holds `tests/….py::test_…`, with commas between several")
        found += [f"{promise}: there is no {path}::{name}" for path, name in named if name not in names_in(path)]
    return found


@cache
def names_in(path: str) -> frozenset[str]:
    """The names of a file's tests."""
    file = ROOT / path
    tree = ast.parse(file.read_text() if file.is_file() else "")
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


@pytest.mark.parametrize("page", PAGES)
def test_every_promise_names_tests_that_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    assert len(rows(text)) >= 10
    assert mistakes(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the tests of this folder",
        "`tests/architecture/test_promises.py`",
        "`tests/architecture/test_promises.py::test_that_nobody_wrote`",
        "`tests/architecture/test_no_such_file.py::test_rows`",
        "`tests/architecture/test_promises.py::test_a_wrong_row_is_found`, and by hand",
    ],
)
def test_a_wrong_row_is_found(text: str) -> None:
    assert mistakes(f"{HEADER}\n|---|---|\n| nothing is lost | {text} |\n")
