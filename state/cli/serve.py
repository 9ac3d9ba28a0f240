"""`serve`: one node in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer


def serve(
    name: Annotated[str, typer.Option("--name", help="This node's name, its own in the cluster.")] = "a",
    listen: Annotated[
        str | None, typer.Option("--listen", help="HOST:PORT to listen on; the name's address in STOREKEEPER_PEERS.")
    ] = None,
    stores: Annotated[str | None, typer.Option("--stores", help="Stores to serve, as STOREKEEPER_STORES.")] = None,
) -> None:
    """Serve state stores until interrupted. Other settings come from STOREKEEPER_* variables."""
    from state.node import main  # noqa: PLC0415 - the server is needed by no other command

    given = {"--listen": listen, "--stores": stores}
    options = [part for option, value in given.items() if value is not None for part in (option, value)]
    raise typer.Exit(main(["--name", name, *options]))
