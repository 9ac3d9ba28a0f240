"""`top` and `rank`: the order of ranked stores."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from state.cli.asking import Store, asks, not_found
from state.cli.output import (
    AnswerOption,
    AnswerOutput,
    ListOption,
    ListOutput,
    origin,
    origin_sentence,
    say,
    write_json,
    write_rows,
)

if TYPE_CHECKING:
    from state.client import StateClient


@asks
def top(
    client: StateClient,
    store: Store,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="How many rows.")] = 10,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """Show the rows with the highest scores.

    Example: storekeeper top players -n 10
    """
    reading = client.ranked(store).top(count)
    write_rows((asdict(row) for row in reading.value), output)
    if output is ListOutput.TABLE:
        say(origin_sentence(reading))


@asks
def rank(
    client: StateClient,
    store: Store,
    key: Annotated[str, typer.Argument(help="The key.")],
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Show the place of a key.

    Exit code 3: there is no such key.

    Example: storekeeper rank players 4711
    """
    reading = client.ranked(store).rank(key)
    if reading.value is None:
        not_found(f"store {store} has no key {key!r}")
    if output is AnswerOutput.JSON:
        write_json({**asdict(reading.value), **origin(reading)})
        return
    typer.echo(f"{reading.value.rank} of {reading.value.of}, score {reading.value.score}")
    say(origin_sentence(reading))
