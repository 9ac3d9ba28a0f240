"""`stores` and `lag`: tables for people, JSON for pipes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from state.cli.nodes import NodeOption, asking

AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]


_PIPE_WIDTH = 200


def stores(node: NodeOption = None, as_json: AsJson = False) -> None:
    """List the stores with their partitions and sizes."""
    with asking(node) as client:
        found = client.stores()
    columns = ("store", "topic", "backend", "partitions", "approximate_num_entries")
    _show(found, columns, as_json=as_json)


def lag(node: NodeOption = None, as_json: AsJson = False) -> None:
    """Show how far each replica is behind its changelog; exit code 1 unless all of them answer."""
    from state.settings import load_node_settings  # noqa: PLC0415 - keeps the command line quick to start

    replicas: list[dict[str, Any]] = []
    for address in node or list(load_node_settings().peer_addresses.values()):
        with asking([address]) as client:
            replicas += client.lag()["replicas"]
    columns = ("node", "store", "partition", "role", "state", "offset", "end_offset", "offset_lag", "error")
    _show(replicas, columns, as_json=as_json)
    if not all(replica["serving"] for replica in replicas):
        raise typer.Exit(1)


def _show(rows: Iterable[dict[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(list(rows)))
        return
    table = Table(*(Column(column.replace("_", " "), no_wrap=True) for column in columns), box=SIMPLE)
    for row in rows:
        table.add_row(*("" if row[column] is None else str(row[column]) for column in columns))
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPE_WIDTH)
    console.print(table)
