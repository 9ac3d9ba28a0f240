"""Tests that wait for an event wait long enough for a busy machine. A wait that ends well is no longer for that."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.test_tree import ROOT, tracked

LEAST_S = 30


def short_waits(source: str) -> list[int]:
    """The lines that call `eventually` with a limit that a busy machine may miss."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        call.lineno
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "eventually" and len(call.args) > 1
        if isinstance(limit := call.args[1], ast.Constant) and float(str(limit.value)) < LEAST_S
    ]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("eventually(seen, 10, 'it is seen')", [1]),
        ("\nwhile eventually(lambda: seen, 2.5): pass", [2]),
        ("eventually(seen, 60, 'it is seen')\neventually(seen, PATIENCE_S, 'it is seen')", []),
    ],
)
def test_a_short_wait_is_seen(source: str, lines: list[int]) -> None:
    assert short_waits(source) == lines


def test_no_test_gives_up_early() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in tracked("tests/*.py", "tests/**/*.py", "harness/*.py", "harness/**/*.py")
        for line in short_waits(path.read_text())
    ]
    assert found == []
