"""`token`: who may ask nodes. A token is shown once, when it is made; only its hash is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from state.errors import ConfigurationError, StateError
from state.names import checked_name
from state.security.access import Caller, Role
from state.security.tokens import TokenRecord, new_token, read_tokens, token_digest, write_tokens

__all__ = ["token_commands"]

FileOption = Annotated[
    Path | None, typer.Option("--file", help="File of the tokens. Default: STOREKEEPER_TOKENS_FILE, or one in run_dir.")
]

token_commands = typer.Typer(
    help="Make, list and remove the tokens with which callers show who they are.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@token_commands.command("add")
def add(
    name: Annotated[str, typer.Argument(help="A name for whoever will use it.")],
    role: Annotated[Role, typer.Option(help="reader: everything; monitor: health, metrics, lists.")] = Role.READER,
    store: Annotated[list[str] | None, typer.Option(help="Only this store; may be there several times.")] = None,
    file: FileOption = None,
) -> None:
    """Make a token and write it to standard output, once. Nodes take it within a second."""
    with _told():
        path = _path(file)
        stores = None if not store else frozenset(checked_name(one) for one in store)
        caller = Caller(checked_name(name), frozenset({role}), stores)
        records = _present(path)
        if any(record.caller.name == name for record in records):
            msg = f"there is a token of the name {name!r}: remove it, or give the new one another name"
            raise ConfigurationError(msg)
        token = new_token()
        write_tokens(path, [*records, TokenRecord(caller, token_digest(token.encode()))])
    _say(f"added to {path}; the token is shown only now:")
    typer.echo(token)


@token_commands.command("list")
def list_tokens(file: FileOption = None) -> None:
    """List names and rights as JSON, one token a line."""
    with _told():
        path = _path(file)
        records = _present(path)
        if not records:
            _say(f"there are no tokens in {path}: `storekeeper token add NAME` makes one")
        for record in records:
            caller = record.caller
            stores = None if caller.stores is None else sorted(caller.stores)
            typer.echo(json.dumps({"name": caller.name, "roles": sorted(caller.roles), "stores": stores}))


@token_commands.command("remove")
def remove(name: Annotated[str, typer.Argument(help="The token's name.")], file: FileOption = None) -> None:
    """Remove a token. Nodes refuse it within a second."""
    with _told():
        path = _path(file)
        records = read_tokens(path)
        left = [record for record in records if record.caller.name != name]
        if len(left) == len(records):
            msg = f"there is no token of the name {name!r} in {path}: `storekeeper token list` shows them"
            raise ConfigurationError(msg)
        write_tokens(path, left)


def _say(words: str) -> None:
    Console(stderr=True, soft_wrap=True).print(words, markup=False, highlight=False)


def _path(file: Path | None) -> Path:
    from state.settings import load_node_settings  # noqa: PLC0415 - keeps the command line quick to start

    if file is not None:
        return file
    settings = load_node_settings()
    if settings.tokens_file is not None:
        return settings.tokens_file
    settings.make_run_dir()
    return settings.run_dir / "secrets" / "tokens"


def _present(path: Path) -> tuple[TokenRecord, ...]:
    return read_tokens(path) if path.exists() else ()


@contextmanager
def _told() -> Iterator[None]:
    """An error ends the command with a sentence on stderr and exit code 1."""
    try:
        yield
    except StateError as error:
        Console(stderr=True).print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from error
