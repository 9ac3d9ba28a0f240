"""Output of commands: tables for people, one JSON object a line for programs. Data goes to standard output."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

if TYPE_CHECKING:
    from state.client import Reading

_PIPE_WIDTH = 200
_MOST_FIELDS = 8

Fields = Mapping[str, Any]


def write_json(found: object) -> None:
    """One line."""
    typer.echo(json.dumps(found, default=_plain, ensure_ascii=False))


def write_value(value: object) -> None:
    """A value for a person or a pipe: indented on a terminal, one line elsewhere."""
    indent = 2 if Console().is_terminal else None
    typer.echo(json.dumps(value, default=_plain, ensure_ascii=False, indent=indent))


def write_rows(rows: Iterable[Fields], *, as_json: bool, columns: Sequence[str] | None = None) -> int:
    """Rows as lines of JSON as they arrive, or as one table. Returns how many there were.

    Args:
        rows: by field. A field `value` that holds an object becomes a column for each of its fields in a table.
        as_json: lines of JSON, all fields.
        columns: the fields that a table shows, in this order; None shows those that the rows have.
    """
    if as_json:
        count = 0
        for row in rows:
            write_json(row)
            count += 1
        return count
    shown = [_spread(row) for row in rows]
    if shown:
        names = list(columns) if columns is not None else list(dict.fromkeys(name for row in shown for name in row))
        show(table(names, shown))
    return len(shown)


def table(columns: Sequence[str], rows: Iterable[Fields]) -> Table:
    """A table with one column for each field; numbers stand to the right."""
    rows = list(rows)
    found = Table(
        *(Column(name.replace("_", " "), no_wrap=True, justify=_justify(name, rows)) for name in columns), box=SIMPLE
    )
    for row in rows:
        found.add_row(*(_cell(name, row.get(name)) for name in columns))
    return found


def show(what: object) -> None:
    """Prints for a person; as wide as needed if there is no terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPE_WIDTH)
    console.print(what)


def origin(reading: Reading[Any]) -> dict[str, Any]:
    """Where an answer comes from, without its value."""
    found = asdict(reading)
    del found["value"]
    return found


def origin_sentence(reading: Reading[Any]) -> str:
    """The same in words."""
    parts = [f"from {reading.served_by or 'a node'}"]
    if reading.role:
        parts[0] += f" ({reading.role})"
    if reading.partition is not None:
        parts.append(f"partition {reading.partition}")
    parts.append(f"{reading.offset_lag} records behind")
    if reading.staleness_ms is not None:
        parts.append(f"at most {reading.staleness_ms} ms old")
    if not reading.complete:
        parts.append("some partitions are missing")
    return ", ".join(parts)


def iso(at_ms: int) -> str:
    """A time as people read it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _spread(row: Fields) -> Fields:
    value = row.get("value")
    if not isinstance(value, dict) or not 1 <= len(value) <= _MOST_FIELDS:
        return row
    rest = {name: field for name, field in row.items() if name != "value"}
    return {**rest, **{name: field for name, field in value.items() if name not in rest}}


def _justify(name: str, rows: Sequence[Fields]) -> Any:
    numbers = all(isinstance(row.get(name), int | float | Decimal | None) for row in rows)
    return "right" if rows and numbers else "left"


def _cell(name: str, value: object) -> str:
    if value is None:
        return ""
    if name in {"start_ms", "end_ms"} and isinstance(value, int):
        return iso(value)
    if isinstance(value, str | Decimal):
        return str(value)
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: object) -> float | str:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return base64.urlsafe_b64encode(value).decode()
    return str(value)
