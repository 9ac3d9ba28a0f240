from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import state

ROOT = Path(__file__).parents[2]


def test_every_public_name_is_there_and_no_other() -> None:
    assert state.__all__ == sorted(state.__all__)
    assert {name for name in state.__all__ if getattr(state, name, None) is None} == set()
    assert set(state.__all__) == set(state._MODULE_OF)
    assert dir(state) == state.__all__


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(state.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("state.")
        for alias in node.names
    }
    assert imported == set(state.__all__)


def test_every_public_function_has_a_contract() -> None:
    bare = []
    for name in state.__all__:
        thing = getattr(state, name)
        if not inspect.getdoc(thing):
            bare.append(name)
        if inspect.isclass(thing):
            bare += [
                f"{name}.{method}"
                for method, function in vars(thing).items()
                if inspect.isfunction(function) and not method.startswith("_") and not inspect.getdoc(function)
            ]
    assert bare == []


def test_importing_the_package_loads_no_backend() -> None:
    code = (
        "import sys, state, state.errors; print(sorted({'rocksdict', 'redis', 'confluent_kafka'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_the_example_runs_twice(tmp_path: Path) -> None:
    example = ROOT / "examples" / "stores.py"
    outputs = [
        subprocess.run([sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert outputs[0].startswith("before: None\n")
    assert outputs[1].startswith("before: {'points': 10}\n")
    assert "[('card-1', {'points': 10}), ('card-10', {'points': 3})]" in outputs[1]
