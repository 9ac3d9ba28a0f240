"""An installed wheel takes no name from anybody: a project has folders and files of any name beside it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.installing.conftest import Install

FILES = ("state.py", "dags/common.py", "deploy/others.py", "quality/rules.py", "spark_apps/mine.py")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of somebody who has never heard of our folders."""
    for name in FILES:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"NAME = {name!r}\n")
    return tmp_path


def test_a_project_imports_its_own(install: Install, project: Path) -> None:
    modules = [name.removesuffix(".py").replace("/", ".") for name in FILES]
    code = f"import storekeeper.topology, storekeeper.client, {', '.join(modules)}\n"
    code += f"print([{', '.join(f'{module}.NAME' for module in modules)}])"
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # noqa: TID251 (handed on)
    done = subprocess.run(
        [install("none").python, "-c", code], cwd=project, env=without, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (f"{list(FILES)}\n", "")


def test_the_program_runs_in_a_project_of_such_names(install: Install, project: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": str(project)}  # noqa: TID251 (what a user's shell passes on)
    done = subprocess.run(
        [install("none").bin / "storekeeper", "--version"],
        cwd=project,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
