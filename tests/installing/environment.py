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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_PRODUCT = "storekeeper"
Wheels = Mapping[str, Path]
"""Our wheels, by the names of their distributions."""


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


def make_environment(folder: Path, wanted: str, wheels: Wheels) -> Environment:
    """Makes an environment in `folder` as `pip install WANTED` would, if the index had our wheels.

    Args:
        folder: is made.
        wanted: a requirement of a distribution of ours, such as `storekeeper[serve]`.
        wheels: all of ours.
    """
    found = required(wanted, wheels)
    made = _with_packages(folder, found)
    _install(made, (wheels[name] for name in found.ours))
    return made


def with_other_extras(folder: Path, installed: Environment, extra: str, wheels: Wheels) -> Environment:
    """Makes an environment of `storekeeper` with another extra than `installed` has."""
    found = required(f"{_PRODUCT}[{extra}]", wheels)
    made = _with_packages(folder, found)
    ours = next(each for each in distributions(path=[str(installed.site)]) if each.metadata["Name"] == _PRODUCT)
    for entry in {path.parts[0] for path in ours.files or ()} - {".."}:
        (made.site / entry).symlink_to(installed.site / entry)
    for path in ours.files or ():
        if path.parts[0] == "..":
            _copy_script(installed.bin / path.name, installed, made)
    _install(made, (wheels[name] for name in found.ours if name != _PRODUCT))
    return made


def _with_packages(folder: Path, found: Required) -> Environment:
    venv.create(folder, with_pip=False, symlinks=True)
    made = Environment(folder)
    for each in found.others:
        _link(each, made.site)
    return made


def _install(environment: Environment, wheels: Iterable[Path]) -> None:
    for wheel in wheels:
        _pip("--python", str(environment.python), "install", "--no-deps", "--no-index", str(wheel))


def _copy_script(script: Path, installed: Environment, made: Environment) -> None:
    """A script runs in the environment whose interpreter its first line names."""
    first, _, rest = script.read_text().partition("\n")
    assert first == f"#!{installed.python}", first
    copy = Path(shutil.copy(script, made.bin))
    copy.write_text(f"#!{made.python}\n{rest}")


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


class Required(NamedTuple):
    """What a requirement brings, directly or through others.

    Attributes:
        ours: names of our own distributions, with the required one.
        others: installed distributions of others.
    """

    ours: list[str]
    others: list[Distribution]


def required(wanted: str, wheels: Wheels) -> Required:
    """What `pip install WANTED` would install."""
    waiting = [Requirement(wanted)]
    done: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        one = name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if one not in done:
            done.add(one)
            needs = metadata(wheels[name]).get_all("Requires-Dist") if name in wheels else _installed()[name].requires
            waiting += _applying(needs or (), extras)
    names = sorted({name for name, _ in done})
    return Required(
        [name for name in names if name in wheels], [_installed()[name] for name in names if name not in wheels]
    )


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
