"""`top` and `rank`: the order of ranked stores."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from state.cli.asking import NOT_FOUND, AsJson, Store, asks, fail, say
from state.cli.output import origin, origin_sentence, write_json, write_rows

if TYPE_CHECKING:
    from state.client import StateClient


@asks
def top(
    client: StateClient,
    store: Store,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="So many rows.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show the rows with the highest scores."""
    reading = client.ranked(store).top(count)
    write_rows((asdict(row) for row in reading.value), as_json=as_json)
    if not as_json:
        say(origin_sentence(reading))


@asks
def rank(
    client: StateClient, store: Store, key: Annotated[str, typer.Argument(help="The key.")], as_json: AsJson = False
) -> None:
    """Show the place of a key; exit code 2 if there is no such key."""
    reading = client.ranked(store).rank(key)
    if reading.value is None:
        fail(f"store {store} has no key {key!r}", NOT_FOUND)
    if as_json:
        write_json({**asdict(reading.value), **origin(reading)})
        return
    typer.echo(f"{reading.value.rank} of {reading.value.of}, score {reading.value.score}")
    say(origin_sentence(reading))
