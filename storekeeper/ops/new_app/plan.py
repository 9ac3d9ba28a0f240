"""The files that `storekeeper new-app` writes: the template app, under another name."""

from __future__ import annotations

import keyword
import re
import sys
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

from storekeeper.apps.registry import ON_DEMAND_APPS, POS_APPS, SHARED_DRIVER
from storekeeper.errors import ConfigurationError, InvalidNameError
from storekeeper.names import checked_name

_TEMPLATES = Path(__file__).resolve().parent
_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_OURS = frozenset({"storekeeper", "storekeeper_provider", "tests"})


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to be written; `path` is relative to the project."""

    path: Path
    content: str


def plan_new_app(name: str) -> list[NewFile]:
    """The files of a new app: the package `package_of` the name, and tests in `tests/`.

    Raises:
        InvalidNameError: the name can't be that of topics, or its last part that of a package, or it is taken.
    """
    package = package_of(name)
    if package in {*POS_APPS, *ON_DEMAND_APPS, SHARED_DRIVER, *sys.stdlib_module_names, *packages_distributions()}:
        msg = f"{name!r} can't name an app: an app of the platform or a Python package already has this name"
        raise InvalidNameError(msg)
    if not _NAME.fullmatch(package) or len(package) > 40 or keyword.iskeyword(package) or package in _OURS:
        msg = (
            f"{name[:60]!r} can't name an app: use at most 40 lower-case letters, digits and single underscores, "
            "beginning with a letter, and no name of Storekeeper's own packages. A prefix of letters, digits, dots and "
            "hyphens may come before it, and ends with a dot"
        )
        raise InvalidNameError(msg)
    checked_name(name)
    modules = [(Path(package), file) for file in sorted((_TEMPLATES / "template_app").glob("*.py"))]
    tests = [(Path("tests"), file) for file in sorted((_TEMPLATES / "template_tests").glob("*.py"))]
    return [
        NewFile(folder / file.name.replace("template_app", package), _renamed(file.read_text("utf-8"), name))
        for folder, file in (*modules, *tests)
        if (folder, file.name) != (Path("tests"), "__init__.py")
    ]


def package_of(name: str) -> str:
    """The package of an app: `points` for `points` and for `till-team.points`."""
    return name.rpartition(".")[2]


def write_new_app(files: list[NewFile], project: Path) -> list[Path]:
    """Writes the files that are not there yet into `project`, and returns their paths.

    An existing `tests/conftest.py` stays unchanged.

    Raises:
        ConfigurationError: another of the files exists; nothing was written.
    """
    shared = Path("tests") / "conftest.py"
    there = [file.path for file in files if file.path != shared and (project / file.path).exists()]
    if there:
        msg = f"{project / there[0]} exists already: choose another name, or another folder with --into"
        raise ConfigurationError(msg)
    written = []
    for file in files:
        path = project / file.path
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.content, "utf-8")
            written.append(path)
    return written


def _renamed(text: str, name: str) -> str:
    package = package_of(name)
    camel = "".join(part.title() for part in package.split("_"))
    return (
        text.replace("# ruff: noqa: S101\n\n", "")  # only here are asserts out of place
        .replace('"template_app', f'"{name}')  # the app and its topics, not the package
        .replace("storekeeper.ops.new_app.template_app", package)
        .replace("template_app", package)
        .replace("TEMPLATE_APP", package.upper())
        .replace("TemplateApp", camel)
    )
