"""`serve`: one node in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer


def serve(
    name: Annotated[str, typer.Option("--name", help="This node's name among STOREKEEPER_PEERS.")] = "a",
) -> None:
    """Serve state stores until interrupted. Settings come from STOREKEEPER_* variables."""
    from state.node import main  # noqa: PLC0415 - the server is needed by no other command

    raise typer.Exit(main(["--name", name]))
