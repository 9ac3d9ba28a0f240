"""Which nodes a command asks, and how it fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from state.errors import StateError

if TYPE_CHECKING:
    from state.query.client import StateClient

NodeOption = Annotated[
    list[str] | None, typer.Option("--node", help="Address of a node to ask. Default: those of STOREKEEPER_PEERS.")
]


@contextmanager
def asking(node: list[str] | None, timeout_s: float = 10.0) -> Iterator[StateClient]:
    """A client for the nodes; errors end the command with a sentence on stderr and exit code 1."""
    from state.query.client import StateClient  # noqa: PLC0415 - keeps the command line quick to start
    from state.settings import load_node_settings  # noqa: PLC0415

    try:
        addresses = node or list(load_node_settings().peer_addresses.values())
        with StateClient(addresses, timeout_s=timeout_s) as client:
            yield client
    except StateError as error:
        Console(stderr=True).print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from error
