"""Commands that ask nodes: the options that all of them have."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Concatenate, NoReturn, ParamSpec

import typer

from storekeeper.cli.output import say
from storekeeper.program import ExitCode

if TYPE_CHECKING:
    from storekeeper.client.client import StateClient

P = ParamSpec("P")

_OPTIONS = {
    "node": Annotated[
        list[str] | None,
        typer.Option("--node", help="Address of a node, http(s)://host:port. Default: those of `peers`."),
    ],
    "token_file": Annotated[
        Path | None, typer.Option("--token-file", help="File with the bearer token to show to the nodes.")
    ],
    "ca": Annotated[
        Path | None, typer.Option("--ca", help="PEM file of the authorities that sign the nodes' certificates.")
    ],
    "certificate": Annotated[Path | None, typer.Option("--certificate", help="PEM file of this client's certificate.")],
    "key_file": Annotated[Path | None, typer.Option("--key-file", help="PEM file of that certificate's key.")],
    "timeout": Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for an answer.")],
}
_DEFAULTS: dict[str, object] = {"timeout": 10.0}

Store = Annotated[str, typer.Argument(help="The store's name.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Rows to show at most.")]


def asks(command: Callable[Concatenate[StateClient, P], None]) -> Callable[..., None]:
    """Gives a command its client, and the options that select the nodes."""
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
        with _client(connection) as client:
            command(client, *args, **options)

    run.__annotations__ = {**hints, **_OPTIONS}
    run.__dict__["__signature__"] = inspect.Signature([*own, *more])
    return run


def not_found(message: str) -> NoReturn:
    """Ends a command that has found nothing, and says so on standard error."""
    say(message)
    raise typer.Exit(ExitCode.NOT_FOUND)


def _client(connection: dict[str, object]) -> StateClient:
    from storekeeper.client.client import StateClient  # noqa: PLC0415 - keeps the command line quick
    from storekeeper.client.credentials import Credentials  # noqa: PLC0415 - keeps the command line quick
    from storekeeper.client.exchange import ClientLimits  # noqa: PLC0415 - keeps the command line quick
    from storekeeper.node.settings import load_node_settings  # noqa: PLC0415

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
