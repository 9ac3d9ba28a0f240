"""What we publish: an archive of sources of each distribution, and the wheel that pip builds of it.

python -m harness.distributions dist
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "storekeeper": ".",
    "storekeeper-client": "client",
    "airflow-provider-storekeeper": "storekeeper_provider",
    "storekeeper-feast": "contrib/feast",
}
"""The folder of each distribution's `pyproject.toml`."""
_SOURCES = ("storekeeper", "storekeeper_provider", "client", "contrib", "pyproject.toml", "README.md", "LICENSE")
_BUILT = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
_ARCHIVE = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
_BUILD_S = 300


class Built(NamedTuple):
    """A distribution as it is published."""

    archive: Path
    wheel: Path


def build(name: str, folder: Path) -> Built:
    """Builds a distribution into a folder, offline, with the installed build packages.

    Args:
        name: of `FOLDERS`.
        folder: made if need be.

    Raises:
        subprocess.CalledProcessError: it can't be built, or a build package warns.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as copy:
        for source in _SOURCES:
            place = ROOT / source
            if place.is_dir():
                shutil.copytree(place, Path(copy) / source, ignore=_BUILT)
            else:
                shutil.copy(place, copy)
        made = Path(copy) / "made"
        made.mkdir()
        _run([sys.executable, "-c", _ARCHIVE, str(made)], Path(copy) / FOLDERS[name])
        (archive,) = made.glob("*.tar.gz")
        # Of the archive: what is missing in it would be missing for everybody who installs from sources.
        options = ["--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir", "--wheel-dir", str(made)]
        _run([sys.executable, "-m", "pip", "wheel", *options, str(archive)], made)
        (wheel,) = made.glob("*.whl")
        return Built(*(Path(shutil.copy(path, folder)) for path in (archive, wheel)))


def _run(command: list[str], folder: Path) -> None:
    variables = {**os.environ, "PYTHONWARNINGS": "error"}  # noqa: TID251 (a variable for the child, not a setting)
    subprocess.run(command, cwd=folder, env=variables, check=True, capture_output=True, text=True, timeout=_BUILD_S)


if __name__ == "__main__":
    for each in FOLDERS:
        for path in build(each, Path(sys.argv[1])):
            sys.stdout.write(f"{path}\n")
