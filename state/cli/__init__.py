"""Commands of the state library: ask nodes, see their lag, serve. Heavy imports wait until a command needs them."""

from __future__ import annotations

import typer

from state.cli.ask import get, scan
from state.cli.look import lag, stores
from state.cli.serve import serve
from state.cli.size import size

__all__ = ["app"]

app = typer.Typer(help="Ask state stores and look after them.", no_args_is_help=True)
for command in (get, scan, stores, lag, serve, size):
    app.command()(command)
