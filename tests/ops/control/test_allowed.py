from __future__ import annotations

from functools import partial
from typing import Any, get_type_hints

import pytest
import typer

from storekeeper.cli.entry import app
from storekeeper.errors import InvalidArgumentError
from storekeeper.ops.control.allowed import ALLOWED, check_allowed


@pytest.mark.parametrize(
    "words",
    [
        "snapshot create rewards",
        "verify rewards",
        "check rewards",
        "generation seed pos --from 2026-01-31T00:00:00Z",
        "generation retire pos --delete",
        "erase rewards --run 20260131T120000000Z",
        "erase rewards --run 20260131T120000000Z --dry-run",
        "quarantine release 12-14 --by me --reason see:there",
    ],
)
def test_jobs_are_commands_about_stores_and_apps(words: str) -> None:
    check_allowed(words.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "can't run as a job"),
        (["run", "pos"], "'run' can't run as a job"),
        (["down"], "can't run as a job"),
        (["token", "add", "me"], "can't run as a job"),
        (["plan", "--export", "/etc/x"], "can't run as a job"),
        (["tables", "--register", "--unity", "http://elsewhere", "--token-file", "/etc/x"], "can't run as a job"),
        (["--help"], "can't run as a job"),
        (["generation", "list", "pos"], "`generation` is followed by one of: handover, plan"),
        (["snapshot"], "`snapshot` is followed by one of"),
        (["snapshot", "--help", "create"], "`snapshot` is followed by one of"),
        (["verify", "rewards", "--output", "table"], "leave --output out"),
        (["verify", "rewards", "--output=table"], "leave --output out"),
        (["verify", "rewards", "-otable"], "leave --output out"),
        (["generation", "status", "os:environ"], "without a module"),
        (["app", "upgrade", "os:environ", "--dry-run"], "without a module"),
        (["erase", "rewards", "4836051607"], "names no key"),
        (["erase", "rewards", "--keys-file", "/etc/x"], "names no key"),
        (["erase", "rewards", "--run", "1", "4836051607"], "names no key"),
        (["erase", "--keys-file=/etc/x", "--run", "1"], "names no key"),
        (["erase"], "names no key"),
        (["verify", "a\0b"], "without NUL"),
        (["verify", *["a"] * 300], "at most 200 arguments"),
    ],
)
def test_all_else_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        check_allowed(words)


def test_every_job_is_a_command_that_there_is() -> None:
    program = typer.main.get_command(app)
    for name, subcommands in ALLOWED.items():
        command = program.get_command(None, name)  # type: ignore[attr-defined]
        assert command is not None, name
        if subcommands:
            assert subcommands <= set(command.list_commands(None))


def test_no_job_takes_a_path_or_an_address() -> None:
    """An operator would read files of this machine by it, or have their content sent elsewhere."""
    program = typer.main.get_command(app)
    taken: list[str] = []
    for name, subcommands in ALLOWED.items():
        if name == "erase":
            continue  # it takes no option but --run and --dry-run, see above
        command = program.get_command(None, name)  # type: ignore[attr-defined]
        for each in [command] if not subcommands else map(partial(command.get_command, None), subcommands):
            taken += [f"{name} {each.name} {given}" for given in _reaching_out(each)]
    assert taken == []
    assert _reaching_out(program.get_command(None, "tables")) == ["token_file", "unity"]  # type: ignore[attr-defined]


def _reaching_out(command: Any) -> list[str]:
    """The parameters of a command that name a path or an address."""
    paths = {name for name, kind in get_type_hints(command.callback).items() if "Path" in str(kind)}
    return sorted(paths | {given.name for given in command.params if given.metavar == "URL"})
