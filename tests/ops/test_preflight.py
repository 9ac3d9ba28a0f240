"""The sentences about what a machine lacks."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from storekeeper.ops import preflight

SCRIPT = Path(preflight.__file__)


def _fake(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    command = folder / name
    command.write_text(f"#!/bin/sh\n{body}\n")
    command.chmod(0o755)


def _java(folder: Path, version: str) -> None:
    _fake(folder, "java", f"echo 'openjdk version \"{version}\"' >&2")


def _run(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={"PATH": str(folder), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_a_fit_machine_passes_in_silence(tmp_path: Path, version: str) -> None:
    _java(tmp_path, version)
    _fake(tmp_path, "mvn", "exit 0")
    done = _run(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_missing_java_is_told_with_the_remedy(tmp_path: Path) -> None:
    _fake(tmp_path, "mvn", "exit 0")
    done = _run(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("preflight: Java was not found")
    assert "JDK 17 or later" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392"])
def test_an_old_java_is_told(tmp_path: Path, version: str) -> None:
    _java(tmp_path, version)
    _fake(tmp_path, "mvn", "exit 0")
    assert "is too old: install a JDK 17" in _run(tmp_path).stderr


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    home.mkdir()
    _java(home / "bin", "11.0.1")
    _java(tmp_path, "21")
    _fake(tmp_path, "mvn", "exit 0")
    assert "Java 11" in _run(tmp_path, JAVA_HOME=str(home)).stderr
    _java(home / "bin", "17.0.1")
    assert _run(tmp_path, JAVA_HOME=str(home)).returncode == 0


def test_a_missing_or_broken_maven_is_told(tmp_path: Path) -> None:
    _java(tmp_path, "17")
    assert "Maven was not found" in _run(tmp_path).stderr
    _fake(tmp_path, "mvn", "exit 1")
    assert "Maven was not found or does not run" in _run(tmp_path).stderr


def test_an_old_python_is_told() -> None:
    problem = preflight.python_problem((3, 9, 2, "final", 0))
    assert problem is not None
    assert problem.startswith("Python 3.9 is too old: install Python 3.11 or later")
    assert preflight.python_problem((3, 11, 0, "final", 0)) is None
    assert preflight.python_problem((4, 0, 0, "final", 0)) is None


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    assert preflight.disk_problem(str(tmp_path), minimum_mb=0) is None
    assert "free at least" in (preflight.disk_problem(str(tmp_path), minimum_mb=2**40) or "")


def test_an_old_python_can_read_the_file() -> None:
    tree = ast.parse(SCRIPT.read_text())
    for node in ast.walk(tree):
        assert not isinstance(node, ast.JoinedStr | ast.AnnAssign | ast.NamedExpr | ast.AsyncFunctionDef)
        if isinstance(node, ast.FunctionDef):
            assert node.returns is None
            assert all(argument.annotation is None for argument in node.args.args)


def test_it_needs_no_installed_package() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT)],
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ModuleNotFoundError" not in done.stderr
