"""`storekeeper dashboard`: the overview in a terminal, live, until it is interrupted."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Callable, Sequence
from datetime import datetime

import rich.table
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from deploy.overview.model import Overview
from deploy.overview.tables import Cell, Mood, Table, notes, summary, tables

_STYLES = {Mood.GOOD: "green", Mood.BAD: "bold red", Mood.NEITHER: ""}
_WIDE = 140
_LEAST_ROWS = 1
_NOTE_LINES = 5


def show_dashboard(collect: Callable[[], Overview], *, interval_s: float, count: int, as_json: bool) -> None:
    """Shows the overview `count` times (0: until interrupted), `interval_s` apart.

    On a terminal each one replaces the one before, and fits its size.
    """
    console = Console()
    if as_json:
        _repeat(lambda: print(json.dumps(collect().as_json()), flush=True), interval_s, count)
    elif not console.is_terminal:
        _repeat(lambda: console.print(picture(collect(), console.width)), interval_s, count)
    else:
        with Live(console=console, auto_refresh=False, screen=count == 0) as live:
            _repeat(
                lambda: live.update(picture(collect(), console.width, console.height), refresh=True), interval_s, count
            )


def picture(view: Overview, width: int, height: int | None = None) -> RenderableType:
    """The overview for a terminal. Rows that don't fit are replaced by their count; unhealthy rows are left out last.

    Args:
        view: the overview.
        width: the most columns of text.
        height: the most lines; None for no limit.
    """
    shown = [table for table in tables(view) if table.rows]
    said = [Cell(line, note.mood) for note in notes(view) for line in textwrap.wrap(note.words, width)]
    head = Text(f"{summary(view)} · {datetime.fromtimestamp(view.at_ms / 1000):%H:%M:%S}")  # noqa: DTZ006 (the viewer's time)
    if height is not None:
        said = _first(said, _NOTE_LINES)
        shown = fitted(shown, height - 1 - len(said))
    lines = [Text(line.words, style=_STYLES[line.mood]) for line in said]
    return Group(head, *lines, *(_rendered(table, width) for table in shown))


def fitted(shown: Sequence[Table], lines: int) -> list[Table]:
    """The tables with as many rows as fit into `lines`; the longest tables are cut."""
    kept = {table.name: len(table.rows) for table in shown}
    sizes = {table.name: len(table.rows) for table in shown}

    def used() -> int:
        # A heading each, and a line that says how many rows are left out.
        return sum(1 + rows + (rows < sizes[name]) for name, rows in kept.items())

    while used() > lines and any(rows > _LEAST_ROWS for rows in kept.values()):
        longest = max(kept, key=lambda name: kept[name])
        kept[longest] -= 1
    return [_cut(table, kept[table.name]) for table in shown]


def _cut(table: Table, rows: int) -> Table:
    if rows == len(table.rows):
        return table
    by_need = sorted(range(len(table.rows)), key=lambda index: not _is_bad(table.rows[index]))
    kept, left = sorted(by_need[:rows]), by_need[rows:]
    ill = sum(1 for index in left if _is_bad(table.rows[index]))
    rest = Cell(f"… {len(left)} more", Mood.BAD if ill else Mood.NEITHER)
    blank = [Cell("")] * (len(table.columns) - 1)
    return Table(table.name, table.columns, [*(table.rows[index] for index in kept), [rest, *blank]])


def _is_bad(row: Sequence[Cell]) -> bool:
    return any(cell.mood is Mood.BAD for cell in row)


def _first(said: list[Cell], number: int) -> list[Cell]:
    if len(said) <= number:
        return said
    return [*said[: number - 1], Cell(f"… {len(said) - number + 1} more lines", Mood.BAD)]


def _rendered(table: Table, width: int) -> RenderableType:
    chosen = [
        index for index, column in enumerate(table.columns) if not column.prose and (width >= _WIDE or not column.wide)
    ]
    made = rich.table.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index in chosen:
        column = table.columns[index]
        # A narrow terminal shortens the first column alone, which holds names.
        made.add_column(
            column.title,
            justify="right" if column.number else "left",
            no_wrap=index > 0,
            overflow="ellipsis",
        )
    for row in table.rows:
        made.add_row(*(Text(row[index].words, style=_STYLES[row[index].mood]) for index in chosen))
    return made


def _repeat(show: Callable[[], None], interval_s: float, count: int) -> None:
    shown = 0
    while True:
        show()
        shown += 1
        if shown == count:
            return
        time.sleep(interval_s)
