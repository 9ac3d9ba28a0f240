"""The files of a new project, and of a new app in one: those of the template, under other names."""

from __future__ import annotations

import json
import keyword
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from storekeeper.apps.registry import APPS, SHARED_DRIVER
from storekeeper.errors import ConfigurationError, InvalidNameError
from storekeeper.names import checked_name
from storekeeper.run_dir import CONFIGURATION
from storekeeper.whole_files import write_whole

_TEMPLATE = Path(__file__).resolve().parent / "template"
_PREFIX = f"{__package__}.template."
_APP_FILES = (
    "spark_apps/template_app.py",
    "state/template_app_totals.py",
    "quality/template_app_totals.py",
    "tests/test_template_app.py",
)
_PROJECT_FILES = (
    "spark_apps/__init__.py",
    "state/__init__.py",
    "quality/__init__.py",
    "tests/conftest.py",
    "dags/daily_proof.py",
)
_CONFIGURATION = """\
# The settings of this project. `storekeeper settings` lists all.
apps = [
]
project_dir = "."
"""
_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to be written; `path` is relative to the project."""

    path: Path
    content: str


def make_project(name: str, folder: Path) -> list[Path]:
    """Makes a project with one app.

    Args:
        name: the app's name.
        folder: the project's. It is made if need be.

    Returns:
        The files.

    Raises:
        InvalidNameError: the name can't be that of an app; see `app_files`.
        ConfigurationError: one of the files exists; nothing was written.
    """
    settings = NewFile(Path(CONFIGURATION), with_app(_CONFIGURATION, entry_of(name)))
    return _written([*app_files(name), *_files(name, _PROJECT_FILES), settings], folder)


def make_app(name: str, folder: Path) -> list[Path]:
    """Adds an app to a project, and names it in the project's `storekeeper.toml`.

    Args:
        name: the app's name.
        folder: the project's.

    Returns:
        The files that are new or changed.

    Raises:
        InvalidNameError: the name can't be that of an app; see `app_files`.
        ConfigurationError: there is no project, it has one of the files already, or its settings can't be extended;
            nothing was written.
    """
    configuration = folder / CONFIGURATION
    if not configuration.is_file():
        msg = f"there is no project in {folder.resolve()}: make one with `storekeeper new-project {name[:60]}`"
        raise ConfigurationError(msg)
    settings = with_app(configuration.read_text("utf-8"), entry_of(name))
    written = _written(app_files(name), folder)
    write_whole(configuration.resolve(), settings.encode())
    return [*written, configuration]


def app_files(name: str) -> list[NewFile]:
    """The files of an app: its topology, its store, the store's checks, and tests.

    Raises:
        InvalidNameError: the name can't be that of topics, or its last part that of a module, or it is taken.
    """
    module = module_of(name)
    if name in {*APPS, SHARED_DRIVER}:
        raise InvalidNameError(f"{name!r} can't name an app: an app of the platform already has this name")
    if not _NAME.fullmatch(module) or len(module) > 40 or keyword.iskeyword(module):
        raise InvalidNameError(
            f"{name[:60]!r} can't name an app: use at most 40 lower-case letters, digits and single underscores, "
            "beginning with a letter. A prefix of letters, digits, dots and hyphens may come before it, and ends with "
            "a dot"
        )
    checked_name(name)
    return _files(name, _APP_FILES)


def module_of(name: str) -> str:
    """The module of an app: `points` for `points` and for `till-team.points`."""
    return name.rpartition(".")[2]


def entry_of(name: str) -> str:
    """How the setting `apps` names an app of a project."""
    module = module_of(name)
    return f"spark_apps.{module}:{module.upper()}"


def with_app(settings: str, entry: str) -> str:
    """The text of a `storekeeper.toml` whose `apps` name one more app.

    Raises:
        ConfigurationError: the text is not TOML, or the place of the new line can't be found.
    """
    try:
        values = tomllib.loads(settings)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{CONFIGURATION} can't be read as TOML: {error}") from error
    values["apps"] = [*values.get("apps", []), entry]
    begun = re.search(r"^apps\s*=\s*\[", settings, re.MULTILINE)
    if begun is None:
        extended = f"apps = [\n  {json.dumps(entry)},\n]\n{settings}"
    else:
        end = _end_of_list(settings, begun.end())
        named = settings[begun.end() : end].rstrip()
        comma = "" if not named or named.endswith(",") else ","
        extended = f"{settings[: begun.end()]}{named}{comma}\n  {json.dumps(entry)},\n{settings[end:]}"
    if _parsed(extended) != values:
        raise ConfigurationError(f"add {json.dumps(entry)} to apps in {CONFIGURATION} by hand: its place was not found")
    return extended


def _end_of_list(settings: str, start: int) -> int:
    """The place of the bracket that ends a list which begins before `start`."""
    ends = (match.start() for match in re.finditer(r"\]", settings[start:]))
    return next(
        (start + end for end in ends if _parsed(f"apps = [{settings[start : start + end]}]") is not None), start
    )


def _parsed(text: str) -> dict[str, object] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _files(name: str, paths: tuple[str, ...]) -> list[NewFile]:
    module = module_of(name)
    return [
        NewFile(Path(path.replace("template_app", module)), _renamed((_TEMPLATE / path).read_text("utf-8"), name))
        for path in paths
    ]


def _written(files: list[NewFile], folder: Path) -> list[Path]:
    existing = next((file.path for file in files if (folder / file.path).exists()), None)
    if existing is not None:
        msg = f"{folder / existing} exists already: choose another name, or another folder with --into"
        raise ConfigurationError(msg)
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.content, "utf-8")
    return [folder / file.path for file in files]


def _renamed(text: str, name: str) -> str:
    module = module_of(name)
    camel = "".join(part.title() for part in module.split("_"))
    ours, theirs = re.escape(f"from {_PREFIX}"), f"from {_PREFIX}"
    # In a project these are its own modules, which come last.
    own = re.findall(rf"^{ours}.*\n", text, re.MULTILINE)
    text = re.sub(rf"^{ours}.*\n", "", text, flags=re.MULTILINE)
    if own:
        last = [*re.finditer(r"^(?:from storekeeper|import msgspec)[^(\n]*(?:\([^)]*\))?\n", text, re.MULTILINE)][-1]
        text = f"{text[: last.end()]}\n{''.join(own)}{text[last.end() :]}".replace(theirs, "from ")
    return (
        text.replace("# ruff: noqa: S101\n\n", "")  # only here are asserts out of place
        .replace('"template_app_totals"', f'"{module}_totals"')
        .replace('"template_app', f'"{name}')  # the app and its topics, not the module
        .replace("template_app", module)
        .replace("TEMPLATE_APP", module.upper())
        .replace("TemplateApp", camel)
    )
