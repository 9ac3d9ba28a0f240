"""An environment that holds the wheel and the packages of chosen extras, and nothing else.

The packages are links to those of the environment that runs the tests: the locked versions, without a download. Which
packages belong to an extra is read from the wheel's metadata, as pip reads it. Pip installs the wheel itself, once: it
writes the same files whatever the extras are, so further environments link those.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
_OURS = "storekeeper"
_PACKAGES = ("storekeeper", "storekeeper_provider", "client")


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment in `folder`."""

    folder: Path

    @property
    def bin(self) -> Path:
        """The folder of its programs."""
        return self.folder / "bin"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.bin / "python"

    @property
    def site(self) -> Path:
        """The folder of its packages."""
        return next(self.folder.glob("lib/python3*/site-packages"))


def build_wheel(folder: Path, project: str = ".") -> Path:
    """Builds a wheel of this checkout into `folder`, and returns its path.

    Args:
        folder: for the wheel and a copy of the sources.
        project: the folder of its `pyproject.toml`, in the checkout.
    """
    source = folder / "source"
    for package in _PACKAGES:
        shutil.copytree(
            ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    _pip("wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source / project))
    return next(folder.glob("*.whl"))


def make_environment(folder: Path, wheel: Path, extras: Iterable[str]) -> Environment:
    """Makes an environment in `folder` as `pip install "WHEEL[EXTRAS]"` would."""
    made = _with_packages(folder, wheel, extras)
    _pip("--python", str(made.python), "install", "--no-deps", "--no-index", str(wheel))
    return made


def with_other_extras(folder: Path, installed: Environment, wheel: Path, extras: Iterable[str]) -> Environment:
    """Makes an environment with other extras than `installed`, which has the same wheel."""
    made = _with_packages(folder, wheel, extras)
    ours = next(found for found in distributions(path=[str(installed.site)]) if found.metadata["Name"] == _OURS)
    for entry in {path.parts[0] for path in ours.files or ()} - {".."}:
        (made.site / entry).symlink_to(installed.site / entry)
    for path in ours.files or ():
        if path.parts[0] == "..":
            _copy_script(installed.bin / path.name, installed, made)
    return made


def _with_packages(folder: Path, wheel: Path, extras: Iterable[str]) -> Environment:
    venv.create(folder, with_pip=False, symlinks=True)
    made = Environment(folder)
    for found in required(wheel, extras):
        _link(found, made.site)
    return made


def _copy_script(script: Path, installed: Environment, made: Environment) -> None:
    """A script runs in the environment whose interpreter its first line names."""
    first, _, rest = script.read_text().partition("\n")
    assert first == f"#!{installed.python}", first
    copy = Path(shutil.copy(script, made.bin))
    copy.write_text(f"#!{made.python}\n{rest}")


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


def required(wheel: Path, extras: Iterable[str]) -> list[Distribution]:
    """The installed distributions that the wheel requires with these extras, directly or through others."""
    wanted = [(requirement, frozenset[str]()) for requirement in _of_wheel(wheel, frozenset(extras))]
    done: set[tuple[str, frozenset[str]]] = set()
    found: dict[str, Distribution] = {}
    while wanted:
        requirement, _ = wanted.pop()
        name, more = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if name == _OURS:
            wanted += [(each, frozenset()) for each in _of_wheel(wheel, more)]
        elif (name, more) not in done:
            done.add((name, more))
            found[name] = _installed()[name]
            wanted += [(each, frozenset()) for each in _applying(found[name].requires or (), more)]
    return list(found.values())


def _of_wheel(wheel: Path, extras: frozenset[str]) -> Iterator[Requirement]:
    return _applying(metadata(wheel).get_all("Requires-Dist") or (), extras)


def metadata(wheel: Path) -> Message:
    """The wheel's metadata."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return BytesParser().parsebytes(archive.read(name))


def _applying(requirements: Iterable[str], extras: frozenset[str]) -> Iterator[Requirement]:
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""}):
            yield requirement


@cache
def _installed() -> dict[str, Distribution]:
    return {canonicalize_name(found.metadata["Name"]): found for found in distributions()}


@cache
def _owners() -> dict[str, int]:
    """How many distributions have files below each top-level entry of site-packages."""
    owners: dict[str, int] = {}
    for found in _installed().values():
        for entry in {path.parts[0] for path in found.files or ()}:
            owners[entry] = owners.get(entry, 0) + 1
    return owners


def _link(found: Distribution, site: Path) -> None:
    """Links the distribution's files. A folder that it shares with none is one link."""
    files = [path for path in found.files or () if path.parts[0] != ".."]
    whole = {path.parts[0] for path in files if _owners()[path.parts[0]] == 1}
    for entry in whole:
        (site / entry).symlink_to(Path(str(found.locate_file(entry))))
    for path in files:
        if path.parts[0] not in whole and "__pycache__" not in path.parts:
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).symlink_to(Path(str(found.locate_file(path))))
