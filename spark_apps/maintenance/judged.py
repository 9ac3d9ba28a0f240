"""Saves and prints the verdicts of a command that checks stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import orjson
import typer

from spark_apps.maintenance.settings import MaintenanceSettings
from state.maintenance.check_verdict import CheckVerdict, put_verdict, together


def judged(
    stores: Sequence[str],
    settings: MaintenanceSettings,
    judge: Callable[[str, MaintenanceSettings], CheckVerdict],
    exit_code: int,
) -> None:
    """Saves the verdict on each store, and prints them as one.

    Raises:
        typer.Exit: with `exit_code`, if one doesn't pass. And what `judge` raises.
    """
    verdicts = [judge(store, settings) for store in stores]
    for each in verdicts:
        put_verdict(settings.run_dir, each)
    verdict = together(",".join(stores), verdicts)
    typer.echo(orjson.dumps(verdict.as_dict()).decode())
    if not verdict.passed:
        raise typer.Exit(exit_code)
