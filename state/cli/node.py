"""`node`: one node in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer

from state.cli.listen import listen_address


def node(
    name: Annotated[str, typer.Argument(help="This node's name, unique in the cluster.")],
    listen: Annotated[
        str | None, typer.Option(help="HOST:PORT to listen on. Default: the name's address in STOREKEEPER_PEERS.")
    ] = None,
    stores: Annotated[
        str | None, typer.Option(help="The stores to serve. Default: those of STOREKEEPER_STORES.")
    ] = None,
) -> None:
    """Run a query node in the foreground until TERM.

    It follows changelogs into local stores and answers queries.

    Example: storekeeper node a
    """
    from state.node import run_node  # noqa: PLC0415 (the server is needed by no other command)

    given: dict[str, object] = {} if stores is None else {"stores": stores}
    if listen is not None:
        given["listen_host"], given["listen_port"] = listen_address(listen)
    run_node(name, given)
