"""`storekeeper quarantine`: what the quality gate holds back, and what becomes of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from quality.settings import QualitySettings
from quality.verdict import WAIVABLE, Verdict
from state.clock import SystemClock

if TYPE_CHECKING:
    from quality.quarantine import Quarantine
    from quality.resolution import Resolution

quarantine_commands = typer.Typer(
    help="See what the quality gate holds back; release or discard it.", no_args_is_help=True, rich_markup_mode=None
)

Batch = Annotated[str, typer.Argument(help="The batch's name, such as 12-14.")]
By = Annotated[str, typer.Option("--by", help="Who decides; it is recorded.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is recorded.")]


@quarantine_commands.command("list")
def list_command(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """List all quarantined batches and what became of them. Example: storekeeper quarantine list."""
    if as_json:
        raise typer.Exit(_run("list"))
    table = Table("batch", "rows", "decided", "what it breaks", "became")
    for verdict, resolution in _quarantine().batches():
        table.add_row(verdict.batch, str(verdict.rows), _when(verdict), "\n".join(verdict.reasons), _became(resolution))
    Console().print(table)


@quarantine_commands.command("show")
def show_command(
    batch: Batch,
    check_again: Annotated[bool, typer.Option("--check-again", help="Also by the rules and settings of now.")] = False,
) -> None:
    """Show why a batch was quarantined, as JSON. Example: storekeeper quarantine show 12-14 --check-again."""
    raise typer.Exit(_run("show", batch, "--check-again" if check_again else ""))


@quarantine_commands.command("release")
def release_command(
    batch: Batch,
    by: By,
    reason: Reason,
    accept: Annotated[
        list[str] | None, typer.Option(help=f"Let it off a rule: {', '.join(WAIVABLE)}; may be there several times.")
    ] = None,
) -> None:
    """Check a batch again and publish it. Example: storekeeper quarantine release 12-14 --by meera --reason "..."."""
    raise typer.Exit(_run("release", batch, "--by", by, "--reason", reason, f"--accept={','.join(accept or [])}"))


@quarantine_commands.command("discard")
def discard_command(batch: Batch, by: By, reason: Reason) -> None:
    """Decide that a batch is never published. Example: storekeeper quarantine discard 12-14 --by me --reason ..."""
    raise typer.Exit(_run("discard", batch, "--by", by, "--reason", reason))


def _run(*arguments: str) -> int:
    from quality.cli import main as run_quality  # noqa: PLC0415 (it needs Delta, which the other commands don't)

    return run_quality(list(arguments))


def _quarantine() -> Quarantine:
    from quality.quarantine import Quarantine  # noqa: PLC0415 (see above)

    return Quarantine(QualitySettings.of_platform(), SystemClock())


def _when(verdict: Verdict) -> str:
    return datetime.fromtimestamp(verdict.decided_at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _became(resolution: Resolution | None) -> str:
    return "" if resolution is None else f"{resolution.action} by {resolution.by}: {resolution.reason}"
