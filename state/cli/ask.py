"""`get` and `scan`: rows as JSON, one a line, fit for a pipe."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import islice
from typing import Annotated, Any

import typer
from rich.console import Console

from state.cli.nodes import NodeOption, asking


def get(
    store: Annotated[str, typer.Argument(help="The store's name.")],
    key: Annotated[str, typer.Argument(help="The key.")],
    node: NodeOption = None,
    where: Annotated[bool, typer.Option("--where", help="Also say on stderr which replica answered.")] = False,
) -> None:
    """Show the row of one key as JSON; exit code 2 if there is none."""
    with asking(node) as client:
        reading = client.store(store).read(key)
    if where:
        told = f"served by {reading.served_by} ({reading.role}), {reading.offset_lag} records behind"
        Console(stderr=True).print(told, highlight=False)
    if reading.value is None:
        Console(stderr=True).print(f"store {store} has no key {key!r}", markup=False, highlight=False)
        raise typer.Exit(2)
    _write(reading.value)


def scan(
    store: Annotated[str, typer.Argument(help="The store's name.")],
    lower: Annotated[str | None, typer.Option("--from", help="First key, included.")] = None,
    upper: Annotated[str | None, typer.Option("--to", help="Last key, included.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many rows.")] = 100,
    node: NodeOption = None,
) -> None:
    """Show rows in the order of their keys as JSON, one a line."""
    with asking(node) as client:
        rows = client.store(store)
        page_rows = min(limit, 1000)
        if lower is None and upper is None:
            found = rows.all(page_rows=page_rows)
        else:
            # U+10FFFF sorts behind every other text, in UTF-8 too.
            found = rows.range(lower or "", upper if upper is not None else "\U0010ffff" * 4, page_rows=page_rows)
        for key, value in islice(found, limit):
            _write({"key": key, "value": value})


def _write(value: Any) -> None:
    typer.echo(json.dumps(value, default=_number, ensure_ascii=False))


def _number(value: object) -> float | str:
    return float(value) if isinstance(value, Decimal) else str(value)
