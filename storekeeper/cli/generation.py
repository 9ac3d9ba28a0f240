"""`storekeeper generation`: the steps in an app's change of generation, for people and for Airflow.

Repeating a step is harmless: it resumes, or shows what was done before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from storekeeper.apps.priority import begin_job
from storekeeper.apps.registry import app_named
from storekeeper.apps.settings import AppSettings
from storekeeper.cli.output import AnswerOption, AnswerOutput, write_answer, write_markdown
from storekeeper.clock import SystemClock
from storekeeper.generations import steps
from storekeeper.generations.catalog import (
    check_fitting,
    check_since,
    facts_of,
)
from storekeeper.generations.changes.plan import Verdict, explain_plan
from storekeeper.generations.deletion import delete_generation
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.handover import GenerationController, controller_of
from storekeeper.generations.journal import TABLES, GenerationState, Journal
from storekeeper.generations.running_code import check_known
from storekeeper.generations.status import generation_status, status_of
from storekeeper.program import ExitCode

if TYPE_CHECKING:
    from storekeeper.generations.recovery import Recovering

generation_commands = typer.Typer(
    help="Migrate the state of an app to a new generation.", no_args_is_help=True, rich_markup_mode=None
)

_App = Annotated[str, typer.Argument(help="The app's name.")]
_Migrations = Annotated[list[str] | None, typer.Option(help="A migration, by name; repeat it for the next one.")]
_Timeout = Annotated[float, typer.Option(help="How long to wait for the app's processes, in seconds.")]


@generation_commands.command()
def plan(
    app: _App,
    migration: _Migrations = None,
    partitions: Annotated[int, typer.Option(min=0, help="Partitions of the new changelogs; 0 keeps the number.")] = 0,
    *,
    copy: Annotated[bool, typer.Option("--copy", help="Plan one even if nothing changes.")] = False,
    since: Annotated[
        str | None, typer.Option("--from", help="As of `seed`: where it begins, instead of with the live rows.")
    ] = None,
    accept_differences: Annotated[
        bool, typer.Option("--accept-differences", help="As of `handover`: rows may differ from the live ones.")
    ] = False,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Plan a new generation of an app.

    Exit code 5: there is nothing to do, or the change is refused.

    Example: storekeeper generation plan pos --migration rewards-tier
    """
    begin_job()
    if since == TABLES:
        _check_only_from_tables(migration, partitions)
        taken = controller_of(app)
        write_answer(_recovering(taken).plan(taken.read()).answer(), output)
        return
    from storekeeper.generations.planning.plan import plan_answer, planned_change  # noqa: PLC0415 (loads Delta)

    change = planned_change(
        app, migration or [], partitions, copy=copy, since=since, accept_differences=accept_differences
    )
    if output is AnswerOutput.JSON:
        write_answer(plan_answer(app, change), output)
    else:
        write_markdown(explain_plan(change))
    if change.verdict is not Verdict.MIGRATE:
        raise typer.Exit(ExitCode.REFUSED)


@generation_commands.command()
def seed(
    app: _App,
    migration: _Migrations = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Partitions of the new changelogs; by default as before.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Start empty, and read the input from its `beginning` or from a time (ISO 8601); or go on from the "
            "`tables`, if changelogs are lost: it is live at once.",
        ),
    ] = None,
    *,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="With `--from tables`: go on although its plan names losses.")
    ] = False,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Make a generation, ready to run beside the live one.

    It starts with the live one's rows, or with the input (--from). Without --migration it is a copy.

    Example: storekeeper generation seed pos
    """
    begin_job()
    if since == TABLES:
        _check_only_from_tables(migration, partitions)
        _answered(app, lambda taken: _recovering(taken).take(accept_loss=accept_loss), output)
        return
    _answered(app, lambda taken: _seeded(taken, tuple(migration or ()), partitions, since), output)


@generation_commands.command()
def status(app: _App, output: AnswerOption = AnswerOutput.TABLE) -> None:
    """Show the generations of an app and their progress.

    Example: storekeeper generation status pos
    """
    begin_job()
    spec, settings = app_named(app), AppSettings.of_platform()
    shown = generation_status(facts_of(spec, settings), settings, SystemClock())
    write_answer(shown, output, _brief(shown))


@generation_commands.command()
def handover(
    app: _App,
    generation: Annotated[
        int | None, typer.Option(min=1, help="The generation to hand over to; by default the newest.")
    ] = None,
    timeout_s: _Timeout = 120,
    max_behind: Annotated[int, typer.Option(min=0, help="Input records that it may be behind at most.")] = 100_000,
    *,
    accept_differences: Annotated[
        bool, typer.Option("--accept-differences", help="Hand over to a backfill even if its rows differ.")
    ] = False,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Let the generation beside the live one take over.

    Every key is compared. Exit code 5: the two differ, and the live one goes on.

    Example: storekeeper generation handover pos
    """
    begin_job(streams_wait=True)

    def taken(all_steps: GenerationController) -> tuple[Journal, dict[str, Any]]:
        candidate = all_steps.read().candidate
        if candidate is not None:
            check_known(all_steps.spec.name, candidate.migrations, all_steps.settings)
        journal, comparison = all_steps.hand_over(generation)
        return journal, {} if comparison is None else {"comparison": asdict(comparison)}

    _answered(app, taken, output, timeout_s=timeout_s, max_behind=max_behind, accepts_differences=accept_differences)


@generation_commands.command()
def rollback(app: _App, timeout_s: _Timeout = 120, output: AnswerOption = AnswerOutput.TABLE) -> None:
    """Go back to the generation that was live before.

    A hand-over under way is cancelled.

    Example: storekeeper generation rollback pos
    """
    begin_job(streams_wait=True)
    _answered(app, lambda taken: taken.roll_back(), output, timeout_s=timeout_s)


@generation_commands.command()
def retire(
    app: _App,
    generation: Annotated[
        int | None, typer.Option(min=1, help="Its number; by default the one that is not live, or was retired last.")
    ] = None,
    delete: Annotated[bool, typer.Option(help="Delete its changelogs, checkpoint and local stores, too.")] = False,
    timeout_s: _Timeout = 120,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """End the generation that is not live.

    Without --delete, its topics and files stay.

    Example: storekeeper generation retire pos --delete
    """
    begin_job()
    _answered(app, lambda taken: _retired(taken, generation, delete=delete), output, timeout_s=timeout_s)


def _seeded(
    controller: GenerationController, migrations: tuple[str, ...], partitions: int | None, since: str | None
) -> Journal:
    spec, settings, file = controller.spec, controller.settings, controller.journal_file
    check_since(since)
    with file.locked(settings.run_dir):
        before = controller.read()
        check_fitting(spec, before.live_generation.migrations, migrations, partitions)
        journal = steps.planned(before, spec, migrations, partitions, since)
        candidate = journal.candidate
        assert candidate is not None  # noqa: S101 (planned a line above)
        check_known(spec.name, candidate.migrations, settings)
        file.write(journal)
        if candidate.state is GenerationState.PLANNED:
            # Imported here because it loads Spark.
            from storekeeper.generations.seeding import make_seed  # noqa: PLC0415

            seed = make_seed(spec, settings, journal, candidate.number, controller.clock)
            journal = steps.seeded(journal, candidate.number, seed.start, seed.rows)
            file.write(journal)
        if journal.generation(candidate.number).state is GenerationState.SEEDED:
            controller.prepare(journal, candidate.number)
            journal = steps.started(journal, candidate.number)
            file.write(journal)
    return journal


def _recovering(controller: GenerationController) -> Recovering:
    # Imported here because they load Spark.
    from storekeeper.engine.runtime.topics import Topics  # noqa: PLC0415
    from storekeeper.generations.recovery import Recovering  # noqa: PLC0415

    check_known(controller.spec.name, controller.read().live_generation.migrations, controller.settings)
    return Recovering(controller, Topics(controller.settings.kafka))


def _check_only_from_tables(migrations: list[str] | None, partitions: int | None) -> None:
    if migrations or partitions:
        raise GenerationRefusedError("what goes on from the tables is as it was: migrate it afterwards")


def _retired(controller: GenerationController, number: int | None, *, delete: bool) -> tuple[Journal, dict[str, Any]]:
    chosen = _retirable(controller.read()) if number is None else number
    journal = controller.retire(chosen)
    left = delete_generation(controller, journal.generation(chosen)) if delete else []
    return journal, {"left_topics": left} if left else {}


def _retirable(journal: Journal) -> int:
    """The generation that is not live. If there is none, the last one that was retired: a killed step goes on."""
    retired = [one.number for one in journal.generations.values() if one.state is GenerationState.RETIRED]
    if journal.other is not None:
        return journal.other.number
    if not retired:
        raise GenerationRefusedError("there is no generation but the live one")
    return max(retired)


def _answered(
    app: str,
    step: Callable[[GenerationController], Journal | tuple[Journal, dict[str, Any]]],
    output: AnswerOutput,
    *,
    timeout_s: float = 120,
    max_behind: int = 100_000,
    accepts_differences: bool = False,
) -> None:
    """Takes a step and shows the result."""
    controller = controller_of(app, timeout_s, max_behind, accepts_differences=accepts_differences)
    made = step(controller)
    journal, more = made if isinstance(made, tuple) else (made, {})
    facts = facts_of(controller.spec, controller.settings)
    shown = status_of(facts, journal, controller.settings, controller.clock)
    write_answer({**shown, **more}, output, {**_brief(shown), **more})


def _brief(described: dict[str, Any]) -> dict[str, Any]:
    """The generations for people: what is live, what runs beside it, and how far it is."""
    shown = ("generation", "state", "schema", "origin", "seed_rows", "last_batch", "records_behind_live")
    processes = {name: process for name, process in described["processes"].items() if process is not None}
    return {
        **described,
        "generations": [{field: item[field] for field in shown} for item in described["generations"]],
        "processes": [
            {"process": name, **{field: process[field] for field in ("state", "generation", "problem", "error")}}
            for name, process in processes.items()
        ],
    }
