"""`get` and `scan`: the rows of key-value stores."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from state.cli.asking import Limit, Store, asks, not_found
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
    write_value,
)

if TYPE_CHECKING:
    from state.client import Row, StateClient
    from state.client.stores import RemoteKeyValueStore

_MOST_ROWS_OF_A_PAGE = 1000
_LAST_TEXT = "\U0010ffff" * 4
"""Sorts behind every other text, in UTF-8 too."""


@asks
def get(
    client: StateClient,
    store: Store,
    key: Annotated[str, typer.Argument(help="The key.")],
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Show the value of one key.

    Standard error says where the value comes from. Exit code 3: there is no such key.

    Example: storekeeper get rewards 0000000042
    """
    reading = client.key_value(store).get(key)
    if reading.value is None:
        not_found(f"store {store} has no key {key!r}")
    if output is AnswerOutput.JSON:
        write_json({"key": key, "value": reading.value, **origin(reading)})
        return
    write_value(reading.value)
    say(origin_sentence(reading))


@asks
def scan(  # noqa: PLR0917 - each is an option of its own
    client: StateClient,
    store: Store,
    lower: Annotated[str | None, typer.Option("--from", help="First key, included.")] = None,
    upper: Annotated[str | None, typer.Option("--to", help="Last key, included.")] = None,
    prefix: Annotated[str | None, typer.Option("--prefix", help="Only keys with this prefix.")] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="In descending order of keys.")] = False,
    limit: Limit = 100,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """Show rows in the order of their keys.

    Exit code 3: there is no row.

    Example: storekeeper scan rewards --prefix 00000000 --limit 20
    """
    if prefix is not None and (lower is not None or upper is not None or reverse):
        raise typer.BadParameter("goes with neither --from, --to nor --reverse", param_hint="--prefix")
    rows = _rows(client.key_value(store), lower, upper, prefix, reverse=reverse, limit=limit)
    count = write_rows(({"key": key, "value": value} for key, value in islice(rows, limit)), output)
    if count == 0:
        not_found(f"store {store} has no row there")
    if count == limit and output is ListOutput.TABLE:
        say(f"the first {limit} rows: --limit shows more")


def _rows(
    store: RemoteKeyValueStore[StateClient],
    lower: str | None,
    upper: str | None,
    prefix: str | None,
    *,
    reverse: bool,
    limit: int,
) -> Iterable[Row]:
    page_rows = min(limit, _MOST_ROWS_OF_A_PAGE)
    if prefix is not None:
        return store.prefix_scan(prefix, page_rows=page_rows)
    if lower is None and upper is None:
        return store.reverse_all(page_rows=page_rows) if reverse else store.all(page_rows=page_rows)
    ask = store.reverse_range if reverse else store.range
    return ask(lower or "", _LAST_TEXT if upper is None else upper, page_rows=page_rows)
