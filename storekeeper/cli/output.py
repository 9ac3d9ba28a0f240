r"""Output of commands: tables for people, JSON or CSV for programs.

Data goes to standard output, messages to standard error. In JSON a list is one object a line, any other answer one
object. Numbers have all their digits there, times are ISO 8601, and binaries hexadecimal with `\x` in front.
"""

from __future__ import annotations

import csv
import datetime
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.markdown import Markdown
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from storekeeper.changelog.skipped import LAST_TIMESTAMP_MS
from storekeeper.snapshots.as_of import distinct_names

if TYPE_CHECKING:
    from storekeeper.client.readings import Reading

_PIPE_WIDTH = 200
_ANY_WIDTH = 100_000
_MOST_FIELDS = 8

Fields = Mapping[str, Any]


class ListOutput(StrEnum):
    """The forms of a list."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class AnswerOutput(StrEnum):
    """The forms of an answer that is not a list."""

    TABLE = "table"
    JSON = "json"


ListOption = Annotated[
    ListOutput, typer.Option("--output", "-o", help="A table for people, or JSON (an object a line) or CSV.")
]
AnswerOption = Annotated[AnswerOutput, typer.Option("--output", "-o", help="A table for people, or a JSON object.")]


def command_group(help: str) -> typer.Typer:  # noqa: A002 (typer's name)
    """A command that has subcommands, and shows its help without one."""
    return typer.Typer(help=help, no_args_is_help=True, rich_markup_mode=None)


def say(message: str) -> None:
    """Writes a message for a person, separate from the data."""
    Console(stderr=True, soft_wrap=True).print(message, style="dim", markup=False, highlight=False)


def write_json(content: object) -> None:
    """One line."""
    typer.echo(_json(content))


def write_value(value: object) -> None:
    """A value for a person or a pipe: indented on a terminal, one line elsewhere."""
    typer.echo(_json(value, orjson.OPT_INDENT_2 if Console().is_terminal else 0))


def write_markdown(text: str) -> None:
    """A text in Markdown, rendered on a terminal."""
    if Console().is_terminal:
        show(Markdown(text))
    else:
        typer.echo(text)


def write_rows(
    rows: Iterable[Fields], output: ListOutput, columns: Sequence[str] | None = None, *, queried: bool = False
) -> int:
    """Rows as lines of JSON as they arrive, as one table, or as CSV. Returns how many there were.

    Args:
        rows: by field. A field `value` that holds an object becomes a column for each of its fields in tables and CSV;
            `key` beside the row's own `key` is `key_1`.
        output: JSON and CSV have all fields.
        columns: the fields that a table shows, in this order; None shows those that the rows have.
        queried: whether they are the answer to a statement: a table has its names as they are, and rows that are wider
            than the terminal are lines of a name and a value, instead of a table that breaks values.
    """
    if output is ListOutput.JSON:
        count = 0
        for row in rows:
            write_json(row)
            count += 1
        return count
    shown = [_spread(row) for row in rows]
    names = list(dict.fromkeys(name for row in shown for name in row)) or list(columns or ())
    if output is ListOutput.CSV:
        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerows([names, *([_cell(name, row.get(name)) for name in names] for row in shown)] if names else [])
    elif shown:
        _show_rows(names if columns is None else columns, shown, queried=queried)
    return len(shown)


def _show_rows(names: Sequence[str], rows: Sequence[Fields], *, queried: bool) -> None:
    as_table, console = table(names, rows, str if queried else None), _console()
    widest = Measurement.get(console, console.options.update(width=_ANY_WIDTH), as_table).maximum
    console.print(_lines(names, rows) if queried and widest > console.width else as_table)


def _lines(names: Sequence[str], rows: Iterable[Fields]) -> Table:
    lines = Table.grid(padding=(0, 2))
    for number, row in enumerate(rows, 1):
        lines.add_row(Text(f"row {number}", style="bold"), "")
        for name in names:
            lines.add_row(Text(name), Text(_cell(name, row.get(name))))
    return lines


def write_answer(answer: Fields, output: AnswerOutput, brief: Fields | None = None) -> None:
    """One answer: JSON on one line, or for people a line for each field, and a table for each list of objects. Programs
    get `answer`; people get `brief`, if all of it is too much to read.
    """
    if output is AnswerOutput.JSON:
        write_json(answer)
        return
    answer = answer if brief is None else brief
    lists = {name: value for name, value in answer.items() if _is_list_of_objects(value)}
    fields = Table(Column(style="bold", no_wrap=True), Column(overflow="fold"), box=None, show_header=False)
    for name, value in answer.items():
        if name not in lists:
            fields.add_row(_label(name), Text(_words(name, value)))
    show(fields)
    for name, value in lists.items():
        show(Text(f"\n{_label(name)}", style="bold"))
        show(table(list(dict.fromkeys(field for row in value for field in row)), value))


def no_table_in(tables: object) -> str:
    """The sentence of a folder of tables that has none."""
    return f"{tables} holds no Delta table yet: `storekeeper snapshot create` writes the first"


def table(columns: Sequence[str], rows: Iterable[Fields], label: Callable[[str], str] | None = None) -> Table:
    """A table with one column for each field; numbers stand to the right. What is too wide goes on in the next line.

    Args:
        columns: the fields.
        rows: by field.
        label: the heading of a field; None shows it in words.
    """
    rows = list(rows)
    shown = Table(
        *(Column(Text((label or _label)(name)), overflow="fold", justify=_justify(name, rows)) for name in columns),
        box=SIMPLE,
    )
    for row in rows:
        shown.add_row(*(Text(_cell(name, row.get(name))) for name in columns))
    return shown


def show(what: object) -> None:
    """Prints for a person; as wide as needed if there is no terminal."""
    _console().print(what)


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_PIPE_WIDTH)


def origin(reading: Reading[Any]) -> dict[str, Any]:
    """Where an answer comes from, without its value."""
    fields = asdict(reading)
    del fields["value"], fields["found"]
    return fields


def origin_sentence(reading: Reading[Any]) -> str:
    """The same in words."""
    parts = [f"from {reading.served_by or 'a node'}"]
    if reading.role:
        parts[0] += f" ({reading.role})"
    if reading.partition is not None:
        parts.append(f"partition {reading.partition}")
    if reading.role != "history":
        parts.append(f"{reading.offset_lag} records behind")
    if reading.staleness_ms is not None:
        parts.append(f"at most {reading.staleness_ms} ms old")
    if not reading.complete:
        parts.append("some partitions are missing")
    return ", ".join(parts)


def iso(at_ms: int) -> str:
    """A time as people read it."""
    return (
        datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def _spread(row: Fields) -> Fields:
    value = row.get("value")
    if not isinstance(value, dict) or not 1 <= len(value) <= _MOST_FIELDS:
        return row
    rest = {name: field for name, field in row.items() if name != "value"}
    names = distinct_names(rest, [*value])
    return {**rest, **{names[name]: field for name, field in value.items()}}


def _is_list_of_objects(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _justify(name: str, rows: Sequence[Fields]) -> Any:
    numbers = not is_time(name) and all(isinstance(row.get(name), int | float | Decimal | None) for row in rows)
    return "right" if rows and numbers else "left"


def _words(name: str, value: object) -> str:
    if isinstance(value, list | tuple):
        return "\n".join(_printable(str(item)) for item in value) or "none"
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {_cell('', item)}" for key, item in value.items()) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _cell(name, value)


def _cell(name: str, value: object) -> str:
    if value is None:
        return ""
    if is_time(name) and isinstance(value, int) and 0 <= value <= LAST_TIMESTAMP_MS:  # a user's may be in microseconds
        return iso(value)
    if isinstance(value, bytes):
        try:
            return _printable(value.decode())
        except UnicodeDecodeError:
            return _hexadecimal(value)
    if isinstance(value, dict | list | tuple | bool | int | float):
        return _printable(_json(value))
    return _printable(str(value))


def _printable(text: str) -> str:
    """Stored data must not steer the reader's terminal, so control characters are shown as escapes."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in text
    )


def is_time(name: str) -> bool:
    """Whether a field of this name has a time in epoch milliseconds."""
    return name in {"start_ms", "end_ms"} or name.endswith("_at_ms")


def _label(name: str) -> str:
    """A field's name for people: the unit of a time goes, because its value is a date then."""
    return (name.removesuffix("_ms") if is_time(name) else name).replace("_", " ")


def _json(content: object, option: int = 0) -> str:
    return orjson.dumps(_exact(content), option=option).decode()


def _exact(value: Any) -> Any:
    """A value as orjson writes it with all its digits."""
    match value:
        case Mapping():
            return {str(key): _exact(item) for key, item in value.items()}
        case list() | tuple():
            return [_exact(item) for item in value]
        case bool() | None | str() | float() | datetime.date() | datetime.time():
            return value
        case int():
            return orjson.Fragment(str(int(value)))  # may exceed 64 bits
        case Decimal():
            return orjson.Fragment(format(value, "f"))
        case _:
            return _hexadecimal(value) if isinstance(value, bytes) else str(value)


def _hexadecimal(value: bytes) -> str:
    return f"\\x{value.hex()}"
