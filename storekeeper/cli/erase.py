"""`storekeeper erase`: keys of a store, for good. Data goes to standard output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from storekeeper.apps.priority import begin_job
from storekeeper.apps.settings import ClientSettings
from storekeeper.cli.output import AnswerOption, AnswerOutput, say, write_answer, write_markdown
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.lease import job_held


def erase(  # noqa: PLR0917 (a command line names its options)
    store: Annotated[str, typer.Argument(help="The store's name.")],
    keys: Annotated[list[str] | None, typer.Argument(metavar="[KEY]...", help="The keys.")] = None,
    keys_file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A file with a key in each line.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="A condition in SQL: the keys of the newest snapshot's rows for which it holds.")
    ] = None,
    run: Annotated[str | None, typer.Option(metavar="ID", help="Erase the keys of the plan with this id.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --run: only show the plan.")] = False,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for Kafka's log cleaner.")] = 60,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Erase keys of a store for good, and certify it.

    Keys give a plan, which is shown and kept: nothing is erased. `--run` with its id erases them. It does what can be
    done now, and is repeated while its exit code is 75, because Kafka keeps deletions for a time. The last run writes a
    certificate: what was erased where, what was searched and found, what is yours. Exit code 5: a clean-up that can be
    undone, or a promised version, keeps the keys.

    Example: storekeeper erase rewards 4836051607
    """
    begin_job()
    from storekeeper.erasure.planning import erasure_of, erasures, keys_where, planned  # noqa: PLC0415 (loads Delta)

    settings, clock = ClientSettings.of_platform(), SystemClock()
    if run is None:
        if dry_run:
            raise typer.BadParameter("needs --run", param_hint="--dry-run")
        named = [key.encode() for key in keys or ()]
        named += [] if keys_file is None else [line for line in keys_file.read_bytes().splitlines() if line]
        named += [] if where is None else keys_where(store, where, settings)
        plan = planned(store, named, settings, clock)
    elif keys or keys_file is not None or where is not None:
        raise typer.BadParameter("takes the keys of the plan, and no others", param_hint="--run")
    else:
        plan = erasures(store, settings).plan(run)
    if run is not None and not dry_run:
        with job_held(store, "cleanup", settings), erasure_of(plan, settings, clock, wait_s=wait) as erasure:
            write_answer(erasure.run(), output)
    elif output is AnswerOutput.JSON:
        write_answer({**plan.as_dict(), "text": plan.as_text()}, output)
    else:
        write_markdown(plan.as_text())
        say(f"To erase them for good: storekeeper erase {store} --run {plan.erasure_id}")
