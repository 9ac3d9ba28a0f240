"""`fetch` and `sessions`: the rows of window and session stores."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from state.cli.asking import Limit, Store, asks, not_found
from state.cli.output import ListOption, ListOutput, write_rows
from state.cli.times import time_option

if TYPE_CHECKING:
    from state.client import StateClient

_TIMES = "epoch ms, ISO 8601, now, or -15m, -1h, -2d"
From = Annotated[str | None, typer.Option("--from", help=f"From this time on: {_TIMES}.")]
To = Annotated[str | None, typer.Option("--to", help=f"Until this time, included: {_TIMES}.")]


@asks
def fetch(  # noqa: PLR0917 - each is an option of its own
    client: StateClient,
    store: Store,
    key: Annotated[str | None, typer.Argument(help="The key; all keys without it.")] = None,
    lower: From = None,
    upper: To = None,
    limit: Limit = 100,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """Show the windows of a key.

    By default the windows that start in the last day. Exit code 3: there are none.

    Example: storekeeper fetch sales STR1534 --from -1h --to now
    """
    from_ms, to_ms = time_option(lower, "--from", "-1d"), time_option(upper, "--to", "now")
    windows = client.window(store)
    found = windows.fetch_all(from_ms, to_ms) if key is None else windows.fetch(key, from_ms, to_ms)
    if write_rows((asdict(row) for row in islice(found, limit)), output) == 0:
        not_found(f"store {store} has no window there")


@asks
def sessions(  # noqa: PLR0917 - each is an option of its own
    client: StateClient,
    store: Store,
    key: Annotated[str | None, typer.Argument(help="The key; all keys without it.")] = None,
    active: Annotated[
        bool, typer.Option("--active", help="Only sessions that a record would still extend now.")
    ] = False,
    lower: From = None,
    upper: To = None,
    limit: Limit = 100,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """Show the sessions of a key or of a time.

    Without a key: those that ended in the last day. Exit code 3: there are none.

    Example: storekeeper sessions user-sessions --active
    """
    store_of = client.session(store)
    if active:
        if key is not None or lower is not None or upper is not None:
            raise typer.BadParameter("goes with neither a key nor a time", param_hint="--active")
        found = store_of.active()
    elif key is not None:
        from_ms = None if lower is None else time_option(lower, "--from", "")
        to_ms = None if upper is None else time_option(upper, "--to", "")
        found = store_of.find_sessions(key, from_ms, to_ms)
    else:
        found = store_of.ended(time_option(lower, "--from", "-1d"), time_option(upper, "--to", "now"))
    if write_rows((asdict(row) for row in islice(found, limit)), output) == 0:
        not_found(f"store {store} has no session there")
