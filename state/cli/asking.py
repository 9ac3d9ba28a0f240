"""Commands that ask nodes: the options that all of them have, and how they fail.

Exit codes: 0 done, 1 an error or something that isn't well, 2 not found or wrong usage, 78 settings that can't work.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Concatenate, NoReturn, ParamSpec

import typer
from rich.console import Console

from state.errors import ConfigurationError, StateError

if TYPE_CHECKING:
    from state.client import StateClient

P = ParamSpec("P")

ERROR = 1
NOT_FOUND = 2
CONFIGURATION = 78

_OPTIONS = {
    "node": Annotated[
        list[str] | None,
        typer.Option("--node", help="Address of a node, http(s)://host:port. Default: those of STOREKEEPER_PEERS."),
    ],
    "token_file": Annotated[
        Path | None, typer.Option("--token-file", help="File with the bearer token to show to the nodes.")
    ],
    "ca": Annotated[
        Path | None, typer.Option("--ca", help="PEM file of the authorities that may have signed the nodes.")
    ],
    "certificate": Annotated[Path | None, typer.Option("--certificate", help="PEM file of this client's certificate.")],
    "key_file": Annotated[Path | None, typer.Option("--key-file", help="PEM file of that certificate's key.")],
    "timeout": Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for an answer.")],
}
_DEFAULTS: dict[str, object] = {"timeout": 10.0}

AsJson = Annotated[bool, typer.Option("--json", help="JSON for programs, one object a line.")]
Store = Annotated[str, typer.Argument(help="The store's name.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many rows.")]


def asks(command: Callable[Concatenate[StateClient, P], None]) -> Callable[..., None]:
    """Gives a command its client, and the options that select the nodes.

    An error of the tree ends it with a sentence on standard error.
    """
    # The client's type is not loaded yet, and typer must not look for it.
    command.__annotations__.pop("client", None)
    hints = inspect.get_annotations(command, eval_str=True)
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if name in hints
    ]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(name), annotation=kind)
        for name, kind in _OPTIONS.items()
    ]

    @wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> None:
        connection = {name: options.pop(name, _DEFAULTS.get(name)) for name in _OPTIONS}
        client = _client(connection)
        try:
            with client:
                command(client, *args, **options)
        except StateError as error:
            fail(str(error), ERROR)

    run.__annotations__ = {**hints, **_OPTIONS}
    run.__dict__["__signature__"] = inspect.Signature([*own, *more])
    return run


def fail(message: str, code: int) -> NoReturn:
    """Ends a command with a sentence on standard error."""
    Console(stderr=True, soft_wrap=True).print(message, style="red", markup=False, highlight=False)
    raise typer.Exit(code)


def say(message: str) -> None:
    """Writes a message for a person, separate from the data."""
    Console(stderr=True, soft_wrap=True).print(message, style="dim", markup=False, highlight=False)


def _client(connection: dict[str, object]) -> StateClient:
    from state.client import ClientLimits, Credentials, StateClient  # noqa: PLC0415 - keeps the command line quick
    from state.settings import load_node_settings  # noqa: PLC0415

    try:
        return StateClient(
            connection["node"] or list(load_node_settings().peer_addresses.values()),  # type: ignore[arg-type]
            credentials=Credentials(
                token_file=connection["token_file"],  # type: ignore[arg-type]
                ca_file=connection["ca"],  # type: ignore[arg-type]
                certificate_file=connection["certificate"],  # type: ignore[arg-type]
                key_file=connection["key_file"],  # type: ignore[arg-type]
            ),
            limits=ClientLimits(timeout_s=connection["timeout"]),  # type: ignore[arg-type]
        )
    except ConfigurationError as error:
        fail(str(error), CONFIGURATION)
    except StateError as error:
        fail(str(error), ERROR)
