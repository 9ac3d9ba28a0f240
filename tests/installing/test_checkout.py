"""The editable installation that `make setup` makes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.distributions import ROOT

_PRINT_PLACES = "import importlib, sys; [print(importlib.import_module(name).__file__) for name in sys.argv[1:]]"


def test_folders_of_a_run_directory_do_not_hide_our_packages(tmp_path: Path) -> None:
    # Processes of a platform run in its run directory, which may have folders of any name.
    packages = [path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file() and path.name != "tests"]
    for name in packages:
        (tmp_path / name).mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # noqa: TID251

    done = subprocess.run(
        [sys.executable, "-c", _PRINT_PLACES, *packages],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == [str(ROOT / name / "__init__.py") for name in packages]
    assert "storekeeper" in packages
