"""`token`: who may ask nodes. A token is shown once, when it is made; only its hash is kept."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from storekeeper.cli.output import ListOption, ListOutput, command_group, say, write_rows
from storekeeper.errors import ConfigurationError
from storekeeper.names import checked_name
from storekeeper.node.security.access import (
    Caller,
    Role,
    TokenRecord,
    new_token,
    read_tokens,
    token_digest,
    write_tokens,
)
from storekeeper.node.settings import load_node_settings

FileOption = Annotated[
    Path | None, typer.Option("--file", help="File of the tokens. Default: `tokens_file`, or one in run_dir.")
]

token_commands = command_group("Make, list and remove the tokens of callers.")


@token_commands.command("add")
def add(
    name: Annotated[str, typer.Argument(help="A name for the caller that will use it.")],
    role: Annotated[
        Role, typer.Option(help="reader: everything; monitor: health, metrics, lists; operator: the control API.")
    ] = Role.READER,
    store: Annotated[list[str] | None, typer.Option(help="Only this store; may be repeated.")] = None,
    file: FileOption = None,
) -> None:
    """Make a token and write it to standard output, once.

    It is accepted within a second: by the control API, and by nodes if `tokens_file` is set.

    Example: storekeeper token add grafana --role monitor
    """
    path = _path(file)
    stores = None if not store else frozenset(checked_name(one) for one in store)
    caller = Caller(checked_name(name), frozenset({role}), stores)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _changing(path):
        records = _present(path)
        if any(record.caller.name == name for record in records):
            msg = f"there is a token of the name {name!r}: remove it, or give the new one another name"
            raise ConfigurationError(msg)
        token = new_token()
        write_tokens(path, [*records, TokenRecord(caller, token_digest(token.encode()))])
    if file is None and load_node_settings().tokens_file is None:
        say("nodes ask for no token while `tokens_file` is not set; the control API always does")
    say(f"added to {path}; the token is shown only now:")
    typer.echo(token)


@token_commands.command("list")
def list_tokens(file: FileOption = None, output: ListOption = ListOutput.TABLE) -> None:
    """List names and rights.

    Example: storekeeper token list
    """
    path = _path(file)
    callers = [record.caller for record in _present(path)]
    if not callers:
        say(f"there are no tokens in {path}: `storekeeper token add NAME` makes one")
    rows = (
        {
            "name": caller.name,
            "roles": sorted(caller.roles),
            "stores": None if caller.stores is None else sorted(caller.stores),
        }
        for caller in callers
    )
    write_rows(rows if output is ListOutput.JSON else map(_in_words, rows), output)


def _in_words(row: dict[str, Any]) -> dict[str, str]:
    stores = "all" if row["stores"] is None else " ".join(row["stores"])
    return {"name": row["name"], "roles": " ".join(row["roles"]), "stores": stores}


@token_commands.command("remove")
def remove(name: Annotated[str, typer.Argument(help="The token's name.")], file: FileOption = None) -> None:
    """Remove a token.

    Nodes refuse it within a second.

    Example: storekeeper token remove grafana
    """
    path = _path(file)
    if not path.parent.is_dir():
        read_tokens(path)  # raises
    with _changing(path):
        records = read_tokens(path)
        left = [record for record in records if record.caller.name != name]
        if len(left) == len(records):
            msg = f"there is no token of the name {name!r} in {path}: `storekeeper token list` shows them"
            raise ConfigurationError(msg)
        write_tokens(path, left)


def _path(file: Path | None) -> Path:
    if file is not None:
        return file
    settings = load_node_settings()
    if settings.tokens_file is not None:
        return settings.tokens_file
    settings.make_run_dir()
    return settings.run_dir / "secrets" / "tokens"


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """One change of the file at a time: of two at once, the last one would undo the other. It locks the folder, as the
    file is replaced.
    """
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _present(path: Path) -> tuple[TokenRecord, ...]:
    return read_tokens(path) if path.exists() else ()
