"""Commands, options and variables in the documents are those of the command line and of the settings."""

from __future__ import annotations

import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from harness.project import ROOT
from storekeeper.cli.entry import app
from storekeeper.ops.settings_reference import ROLES, names, settings_of

PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "storekeeper_provider" / "dags").glob("*.py")),
]
_VARIABLE = re.compile(r"STOREKEEPER_[A-Z0-9_]*[A-Z0-9]")
_INLINE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
_BLOCK_LINE = re.compile(r"^ {4,}(\S.*)$", re.MULTILINE)
_FENCED = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_LONE_OPTION = re.compile(r"`(--[a-z][a-z-]*)")
_OF_OTHERS = {"--long", "--pictures", "--conf"}
"""Options of pytest and of `airflow dags trigger`."""
_OURS = ("storekeeper", "storekeeper_provider")


@cache
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
    if words[0] == "storekeeper":
        return _wrong(program(), words[1:])
    ours = words[2:] and words[2].partition(".")[0] in _OURS
    return f"{words[2]} is not a program: its commands are those of storekeeper" if ours else None


@cache
def program() -> Any:
    """The program: each command of it is made once, which takes longer than to look at it."""
    return typer.main.get_command(app)


@cache
def commands_of(command: Any) -> dict[str, Any]:
    """The commands of a group by name, in its order; none if it is not a group."""
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    return {name: command.get_command(None, name) for name in names}


def _wrong(command: Any, words: list[str]) -> str | None:
    rest = [word for word in words if word.strip(".…,:") and not word.startswith("<")]
    while hasattr(command, "list_commands") and rest and not rest[0].startswith("-"):
        found = commands_of(command).get(rest[0])
        if found is None:
            return f"there is no command {rest[0]!r}"
        command, rest = found, rest[1:]
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    named = {word.partition("=")[0] for word in rest if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word)}
    absent = named - options - {"--help"}
    return f"{command.name} has no option {', '.join(sorted(absent))}" if absent else None


def all_commands(group: Any = None, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group of the program by its path."""
    for name, found in commands_of(group or program()).items():
        yield (*path, name), found
        if commands_of(found):
            yield from all_commands(found, *path, name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_exists(page: Path) -> None:
    found = {" ".join(words): wrong_in(words) for words in commands_in(page.read_text())}
    assert {command: wrong for command, wrong in found.items() if wrong is not None} == {}


def test_every_command_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    leaves = {" ".join(path) for path, command in all_commands() if not commands_of(command)}
    assert {leaf for leaf in leaves if not re.search(rf"`(storekeeper )?{leaf}`", page)} == set()


def test_there_are_few_commands() -> None:
    assert len([path for path, command in all_commands() if not commands_of(command)]) <= 55


@cache
def all_options(command: Any) -> set[str]:
    own = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return own.union(*map(all_options, commands_of(command).values()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_that_is_named_alone_is_one_of_a_command(page: Path) -> None:
    known = _OF_OTHERS | all_options(program())
    assert set(_LONE_OPTION.findall(page.read_text())) - known == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_variable_is_a_setting(page: Path) -> None:
    text = re.sub(r"STOREKEEPER_(\w+_)?\*", "", page.read_text())
    assert set(_VARIABLE.findall(text)) - known_variables() == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_configuration_file_has_settings_alone(page: Path) -> None:
    files = re.findall(r"^ *```toml\n(.*?)^ *```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert set().union(*(tomllib.loads(textwrap.dedent(file)) for file in files)) <= names()


def test_a_variable_means_one_thing() -> None:
    """Several programs may read a variable. Then it has one default, but for nodes that a program may do without."""
    defaults: dict[str, set[str]] = {}
    for _, _, settings in ROLES:
        for setting in settings_of(settings):
            defaults.setdefault(setting.variable, set()).add(setting.default)
    several = {variable: found for variable, found in defaults.items() if len(found) > 1}
    assert several.keys() <= {"STOREKEEPER_PEERS"}, several


def test_what_is_wrong_is_noticed() -> None:
    page = (
        "`storekeeper sql --at-version x=1`, `python -m storekeeper.node.node`\n\n    storekeeper nothing here | jq\n"
    )
    assert [wrong_in(words) for words in commands_in(page)] == [
        "sql has no option --at-version",
        "storekeeper.node.node is not a program: its commands are those of storekeeper",
        "there is no command 'nothing'",
    ]
    assert wrong_in(["storekeeper", "token", "add", "NAME", "--role", "monitor"]) is None
