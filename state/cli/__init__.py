"""Commands of the state library: ask nodes, watch them, serve. Heavy imports wait until a command needs them."""

from __future__ import annotations

from collections.abc import Callable

import typer

from state.cli.ask import get, scan
from state.cli.look import cluster, lag, stores
from state.cli.ranking import rank, top
from state.cli.serve import serve
from state.cli.size import size
from state.cli.token import token_commands
from state.cli.watch import watch
from state.cli.windowed import fetch, sessions

__all__ = ["app"]

_COMMANDS: dict[Callable[..., None], str] = {
    get: "storekeeper get rewards 0000000042",
    scan: "storekeeper scan rewards --prefix 00000000 --limit 20",
    fetch: "storekeeper fetch sales STR1534 --from -1h --to now",
    sessions: "storekeeper sessions user-sessions --active",
    top: "storekeeper top players -n 10",
    rank: "storekeeper rank players 4711",
    stores: "storekeeper stores --json",
    lag: "storekeeper lag --node http://127.0.0.1:18101",
    watch: "storekeeper watch",
    cluster: "storekeeper cluster",
    serve: "storekeeper serve --name a",
    size: "storekeeper size --rows 5000000 --partitions 8",
}

app = typer.Typer(
    help="Ask state stores and look after them.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
for _command, _example in _COMMANDS.items():
    _contract = (_command.__doc__ or "").strip()
    app.command(help=f"{_example}\n\n{_contract}", short_help=_contract.partition(";")[0].partition("\n")[0])(_command)
app.add_typer(token_commands, name="token")
