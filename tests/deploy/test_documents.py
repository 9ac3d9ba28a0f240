"""Commands, options and variables in the documents are those of the command line and of the settings."""

from __future__ import annotations

import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from deploy.cli import app
from deploy.settings import PROJECT_ROOT
from deploy.settings_reference import ROLES, settings_of
from spark_apps.cli import cli as spark_apps
from spark_apps.maintenance.__main__ import cli as maintenance
from state.configuration import KEYS

PAGES = [
    PROJECT_ROOT / "README.md",
    PROJECT_ROOT / "ARCHITECTURE.md",
    *sorted((PROJECT_ROOT / "docs").rglob("*.md")),
    *sorted((PROJECT_ROOT / "dags").glob("*.py")),
]
_VARIABLE = re.compile(r"STOREKEEPER_[A-Z0-9_]*[A-Z0-9]")
_INLINE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
_BLOCK_LINE = re.compile(r"^ {4,}(\S.*)$", re.MULTILINE)
_FENCED = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_LONE_OPTION = re.compile(r"`(--[a-z][a-z-]*)")
_OF_OTHERS = {"--long", "--pictures", "--conf"}
"""Options of pytest and of `airflow dags trigger`."""
_PROGRAMS: dict[tuple[str, ...], typer.Typer] = {
    ("storekeeper",): app,
    ("python", "-m", "spark_apps"): spark_apps,
    ("python", "-m", "spark_apps.maintenance"): maintenance,
}


def known_variables() -> set[str]:
    return {"STOREKEEPER_CONFIG"} | {one.variable for _, _, settings in ROLES for one in settings_of(settings)}


def commands_in(text: str) -> Iterator[list[str]]:
    """The calls of our programs in the code of a page, without what follows a pipe, a semicolon or a comment."""
    text = re.sub(r"\\\n\s*", " ", text)
    code = [*_INLINE.findall(text), *_BLOCK_LINE.findall(text)]
    code += [line for block in _FENCED.findall(text) for line in block.splitlines()]
    for piece in code:
        for command in re.split(r"\s\|\s|;|&&|\s#", piece.replace("\n", " ")):
            try:
                words = shlex.split(command.strip().removeprefix("$ "))
            except ValueError:
                continue
            if words[:1] == ["storekeeper"] or words[:2] == ["python", "-m"]:
                yield words


def wrong_in(words: list[str]) -> str | None:
    """What a command names that there isn't; None if all of it is there."""
    for program, commands in _PROGRAMS.items():
        if tuple(words[: len(program)]) == program:
            return _wrong(typer.main.get_command(commands), words[len(program) :])
    return None


def _wrong(command: Any, words: list[str]) -> str | None:
    rest = [word for word in words if word.strip(".…,:") and not word.startswith("<")]
    while getattr(command, "commands", None) and rest and not rest[0].startswith("-"):
        found = command.commands.get(rest[0])
        if found is None:
            return f"there is no command {rest[0]!r}"
        command, rest = found, rest[1:]
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    named = {word.partition("=")[0] for word in rest if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word)}
    absent = named - options - {"--help"}
    return f"{command.name} has no option {', '.join(sorted(absent))}" if absent else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_exists(page: Path) -> None:
    found = {" ".join(words): wrong_in(words) for words in commands_in(page.read_text())}
    assert {command: wrong for command, wrong in found.items() if wrong is not None} == {}


def test_every_command_is_in_the_reference() -> None:
    page = (PROJECT_ROOT / "docs" / "reference" / "commands.md").read_text()
    named = set(re.findall(r"`storekeeper ([a-z-]+)", page))
    assert named == set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def all_options(command: Any) -> set[str]:
    own = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return own.union(*map(all_options, getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_that_is_named_alone_is_one_of_a_command(page: Path) -> None:
    known = _OF_OTHERS.union(*(all_options(typer.main.get_command(program)) for program in _PROGRAMS.values()))
    assert set(_LONE_OPTION.findall(page.read_text())) - known == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_variable_is_a_setting(page: Path) -> None:
    text = re.sub(r"STOREKEEPER_(\w+_)?\*", "", page.read_text())
    assert set(_VARIABLE.findall(text)) - known_variables() == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_configuration_file_has_settings_alone(page: Path) -> None:
    files = re.findall(r"^ *```toml\n(.*?)^ *```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert set().union(*(tomllib.loads(textwrap.dedent(file)) for file in files)) <= KEYS


def test_a_variable_means_one_thing() -> None:
    """Several programs may read a variable. Then it has one default, but for nodes that a program may do without."""
    defaults: dict[str, set[str]] = {}
    for _, _, settings in ROLES:
        for setting in settings_of(settings):
            defaults.setdefault(setting.variable, set()).add(setting.default)
    several = {variable: found for variable, found in defaults.items() if len(found) > 1}
    assert several.keys() <= {"STOREKEEPER_PEERS"}, several


def test_what_is_wrong_is_noticed() -> None:
    page = "`storekeeper sql --at-version x=1`, then\n\n    storekeeper nothing here | jq\n"
    assert [wrong_in(words) for words in commands_in(page)] == [
        "sql has no option --at-version",
        "there is no command 'nothing'",
    ]
    assert wrong_in(["storekeeper", "token", "add", "NAME", "--role", "monitor"]) is None
