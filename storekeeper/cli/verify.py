"""The command that compares the copies of a store. Delta is loaded when it is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from storekeeper.apps.priority import begin_job
from storekeeper.apps.registry import gated_tables
from storekeeper.apps.settings import SnapshotSettings
from storekeeper.cli.output import AnswerOption, AnswerOutput, write_answer
from storekeeper.program import ExitCode
from storekeeper.verification.check_verdict import CheckVerdict, put_verdict, together


def verify(
    stores: Annotated[list[str], typer.Argument(help="The stores' names.")],
    repair: Annotated[
        str | None,
        typer.Option(metavar="NODE|APP", help="Set aside the wrong copies of a node or of the app's tasks."),
    ] = None,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Compare changelog, SQL and nodes.

    Every column of the newest snapshot, and every query node, must equal the changelog. Exit code 4: they
    differ; the answer has the first differing keys, masked. The quality gate's tables must be as they were sealed.

    With --repair the holder restores them from the changelog; the app must be stopped. The verdict is that of before.

    Example: storekeeper verify rewards --repair a
    """
    begin_job()
    from storekeeper.verification.gated_tables import verify_table  # noqa: PLC0415 (loads Delta)
    from storekeeper.verification.verify import verify_store  # noqa: PLC0415 (as above)

    def check(name: str, settings: SnapshotSettings) -> CheckVerdict:
        return verify_table(name, settings) if name in gated_tables() else verify_store(name, settings, repair=repair)

    _checked([*dict.fromkeys(stores)], check, output)


def _checked(
    stores: Sequence[str], check: Callable[[str, SnapshotSettings], CheckVerdict], output: AnswerOutput
) -> None:
    """Saves the verdict on each store, and shows them as one.

    Raises:
        typer.Exit: one doesn't pass. And what `check` raises.
    """
    settings = SnapshotSettings.of_platform()
    verdicts = []
    for store in stores:
        verdicts.append(check(store, settings))
        put_verdict(settings.run_dir, verdicts[-1])  # at once: the check of the next one may fail
    verdict = together(",".join(stores), verdicts)
    write_answer(verdict.as_dict(), output)
    if not verdict.passed:
        raise typer.Exit(ExitCode.FINDING)
