"""What the demo shows: steps and progress bars on standard error, tables and the verdict on standard output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from demo.progress import AppProgress
from demo.report import DemoReport

_STEPS = 6
_SHOWN_DIFFERENCES = 10


class Screen:
    """The terminal of one demo."""

    def __init__(self) -> None:
        self._out = Console(highlight=False)
        self.steps = Console(stderr=True, highlight=False)

    def step(self, number: int, title: str) -> None:
        """Begins a step."""
        self.steps.print(f"[bold]{number}/{_STEPS}[/] {title}", soft_wrap=True)

    def note(self, text: str) -> None:
        """A detail of the current step."""
        self.steps.print(f"  {text}", markup=False, soft_wrap=True)

    @contextmanager
    def publishing(self, total: int) -> Iterator[Callable[[int], None]]:
        """A bar for the records published; call it with their number so far."""
        with self._bars() as bars:
            task = bars.add_task("published", total=total)
            yield lambda published: bars.update(task, completed=published)

    @contextmanager
    def processing(self) -> Iterator[Callable[[list[AppProgress]], None]]:
        """A bar for each app; call it with the progress of all."""
        with self._bars() as bars:
            tasks: dict[str, TaskID] = {}

            def show(found: list[AppProgress]) -> None:
                for progress in found:
                    if progress.app not in tasks:
                        tasks[progress.app] = bars.add_task(progress.app)
                    bars.update(tasks[progress.app], completed=progress.processed, total=progress.total)

            yield show

    def table(self, title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A small result."""
        self._out.print(title, style="bold", markup=False, soft_wrap=True)
        table = Table(box=None, pad_edge=False, show_header=any(headings))
        for heading in headings:
            table.add_column(heading)
        for row in rows:
            table.add_row(*map(str, row))
        self._out.print(table)
        self._out.print()

    def verdict(self, report: DemoReport, path: str) -> None:
        """The last lines."""
        counts = ", ".join(f"{count} {name}" for name, count in report.counts.items())
        self._out.print(f"compared: {counts}", soft_wrap=True)
        for difference in report.differences[:_SHOWN_DIFFERENCES]:
            self._out.print(f"  {difference}", markup=False, soft_wrap=True)
        if report.difference_count > _SHOWN_DIFFERENCES:
            self._out.print(f"  and {report.difference_count - _SHOWN_DIFFERENCES} more")
        colour = "green" if report.is_green else "red"
        self._out.print(f"[bold {colour}]{report.difference_count} differences[/] (details in {path})", soft_wrap=True)

    def _bars(self) -> Progress:
        columns = (TextColumn("  {task.description:<14}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        return Progress(*columns, console=self.steps)
