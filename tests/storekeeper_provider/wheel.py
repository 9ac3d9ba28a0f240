"""The provider's wheel, built of its folder alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
_BUILD_S = 300


def build_wheel(folder: Path) -> Path:
    """Builds it of a copy, so that the project's folder stays clean."""
    source = folder / "source"
    without = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    shutil.copytree(PROJECT / "storekeeper_provider", source, ignore=without)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source)],
        check=True,
        capture_output=True,
        timeout=_BUILD_S,
    )
    (built,) = folder.glob("*.whl")
    return built
