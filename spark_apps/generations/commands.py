"""`python -m spark_apps generation …`: the steps in an app's change of generation, for people and for Airflow.

Each prints one JSON object on stdout as its last line. Exit codes: 0 done, also if it was done before; 3 refused, a
person must decide (the object has `error`); 1 not now, the same step may be taken again (the object has `error`).
"""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import orjson
import structlog
import typer

from spark_apps.generations import steps
from spark_apps.generations.catalog import check_changeable, check_fitting, check_since, known, settings_of
from spark_apps.generations.comparison import behind, compare_generations
from spark_apps.generations.desired_state import Role
from spark_apps.generations.errors import GenerationRefusedError
from spark_apps.generations.handover import GenerationController
from spark_apps.generations.journal import Generation, GenerationState, Journal
from spark_apps.generations.running_code import check_known
from spark_apps.registry import app_named
from spark_apps.runtime.heartbeat import read_heartbeat
from spark_apps.runtime.topics import Topics
from spark_apps.settings import AppSettings
from state.clock import SystemClock
from state.cluster.alias_topic import publish_alias
from state.errors import ConfigurationError, StateError
from state.migration.compare import ComparisonVerdict
from state.security.cluster_secret import load_cluster_secret

EXIT_FAILED = 1
EXIT_REFUSED = 3
_OWN_TOPICS = ("-markers", "-repartition")
"""Suffixes of a generation's own topics, other than its changelogs."""
_REMOVALS = 50
_REMOVAL_PAUSE_S = 0.2

generation_commands = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
_log = structlog.get_logger(__name__)

_App = Annotated[str, typer.Argument(help="The app's name.")]
_Timeout = Annotated[float, typer.Option(help="How long to wait for the app's processes, in seconds.")]


@generation_commands.callback()
def generation() -> None:
    """Change the state of an app by a new generation of it."""


@generation_commands.command()
def seed(
    app: _App,
    migration: Annotated[
        list[str] | None, typer.Option(help="A change to make, by name; again for one after it. None only copies.")
    ] = None,
    partitions: Annotated[int | None, typer.Option(min=1, help="Of the new changelogs; else as the old ones'.")] = None,
    since: Annotated[
        str | None,
        typer.Option("--from", help="Begin empty, and read the input from its `beginning` or from a time (ISO 8601)."),
    ] = None,
) -> None:
    """Make a generation out of the live one's rows, or out of the input, ready to run beside it."""
    _answered(app, lambda taken: _seeded(taken, tuple(migration or ()), partitions, since))


@generation_commands.command()
def status(app: _App) -> None:
    """Tell which generations there are and how far they have come."""
    _answered(app, lambda taken: taken.read())


@generation_commands.command()
def handover(
    app: _App,
    generation: Annotated[int | None, typer.Option(min=1, help="To which; else to the newest one.")] = None,
    timeout_s: _Timeout = 120,
    max_behind: Annotated[int, typer.Option(min=0, help="Most input records that it may be behind.")] = 100_000,
    *,
    accept_differences: Annotated[
        bool, typer.Option("--accept-differences", help="Hand over to a backfill, too, if it holds something else.")
    ] = False,
) -> None:
    """Let the generation that runs beside the live one take over, if both hold the same."""

    def taken(all_steps: GenerationController) -> tuple[Journal, dict[str, Any]]:
        candidate = all_steps.read().candidate
        if candidate is not None:
            check_known(all_steps.spec.name, candidate.migrations, all_steps.settings)
        journal, comparison = all_steps.hand_over(generation)
        return journal, {} if comparison is None else {"comparison": asdict(comparison)}

    _answered(app, taken, timeout_s=timeout_s, max_behind=max_behind, accepts_differences=accept_differences)


@generation_commands.command()
def rollback(app: _App, timeout_s: _Timeout = 120) -> None:
    """Call off the hand-over under way, or go back to the generation that was live before."""
    _answered(app, lambda taken: taken.roll_back(), timeout_s=timeout_s)


@generation_commands.command()
def retire(
    app: _App,
    generation: Annotated[int | None, typer.Option(min=1, help="Which; else the one that is not live.")] = None,
    delete: Annotated[bool, typer.Option(help="Delete its changelogs, checkpoint and local stores, too.")] = False,
    timeout_s: _Timeout = 120,
) -> None:
    """End the generation that is not live. With --delete nothing is left of it."""
    _answered(app, lambda taken: _retired(taken, generation, delete=delete), timeout_s=timeout_s)


def _seeded(
    taken: GenerationController, migrations: tuple[str, ...], partitions: int | None, since: str | None
) -> Journal:
    spec, settings, file = taken.spec, taken.settings, taken.journal_file
    check_since(since)
    with file.locked():
        before = taken.read()
        check_fitting(spec, before.live_generation.migrations, migrations, partitions)
        journal = steps.planned(before, spec, migrations, partitions, since)
        candidate = journal.candidate
        assert candidate is not None  # noqa: S101 (planned a line above)
        check_known(spec.name, candidate.migrations, settings)
        file.write(journal)
        if candidate.state is GenerationState.PLANNED:
            # Imported here because it loads Spark.
            from spark_apps.generations.seeding import make_seed  # noqa: PLC0415

            made = make_seed(spec, settings, journal, candidate.number, taken.clock)
            journal = steps.seeded(journal, candidate.number, made.start, made.rows)
            file.write(journal)
        if journal.generation(candidate.number).state is GenerationState.SEEDED:
            taken.prepare(journal, candidate.number)
            journal = steps.started(journal, candidate.number)
            file.write(journal)
    return journal


def _retired(taken: GenerationController, number: int | None, *, delete: bool) -> Journal:
    journal = taken.read()
    chosen = number
    if chosen is None:
        if journal.other is None:
            raise GenerationRefusedError("there is no generation but the live one and those that are retired")
        chosen = journal.other.number
    journal = taken.retire(chosen)
    if delete:
        delete_generation(taken, journal.generation(chosen))
    return journal


def remove_folder(folder: Path, wait: Callable[[float], object] = time.sleep) -> None:
    """Removes a folder to which a JVM that is ending, or is busy with other work, may still write files.

    Raises:
        OSError: it can't be removed, or files keep appearing in it.
    """
    for _ in range(_REMOVALS):
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:  # the JVM removed a file first, or there is no folder
            if not folder.exists():
                return
        except OSError as error:
            # Spark's state maintenance runs on briefly after the query has ended.
            if error.errno != errno.ENOTEMPTY:
                raise
        else:
            return
        wait(_REMOVAL_PAUSE_S)
    shutil.rmtree(folder)


def delete_generation(taken: GenerationController, generation: Generation) -> None:
    """Deletes the topics, the checkpoint and the local stores of a generation, even if its seed is incomplete."""
    settings = settings_of(taken.settings, generation)
    checkpoint = settings.checkpoint_dir(taken.spec.name)
    prefix = f"{taken.spec.name}-gen-{generation.number}-"
    topics = Topics(settings.kafka_bootstrap)
    own = {name for name in topics.names() if name.startswith(prefix) and name.endswith(_OWN_TOPICS)}
    # The first generation's repartition topics have no number in their names: its checkpoint lists them.
    topics.delete([*generation.topics.values(), *(own | taken.repartition_topics(generation))])
    for folder in (
        checkpoint,
        *checkpoint.parent.glob(f"{checkpoint.name}.*"),
        settings.generation_dir(taken.spec.name),
        settings.state_dir / taken.spec.name / f"gen-{generation.number}",
    ):
        if folder.is_dir():
            remove_folder(folder)
        else:
            folder.unlink(missing_ok=True)


def _answered(
    app: str,
    step: Callable[[GenerationController], Journal | tuple[Journal, dict[str, Any]]],
    *,
    timeout_s: float = 120,
    max_behind: int = 100_000,
    accepts_differences: bool = False,
) -> None:
    """Takes a step, prints the result and exits."""
    try:
        taken = _steps(app, timeout_s, max_behind, accepts_differences=accepts_differences)
        made = step(taken)
        journal, more = made if isinstance(made, tuple) else (made, {})
        answer, code = {**_told(taken, journal), **more}, 0
    except ConfigurationError as error:
        answer, code = _refusal(error), EXIT_REFUSED
    except StateError as error:
        answer, code = _refusal(error), EXIT_FAILED
    typer.echo(orjson.dumps(answer, option=orjson.OPT_SORT_KEYS).decode())
    raise typer.Exit(code)


def _steps(app: str, timeout_s: float, max_behind: int, *, accepts_differences: bool) -> GenerationController:
    spec = app_named(app)
    check_changeable(spec)
    settings = AppSettings.of_platform()
    secret = load_cluster_secret(settings.cluster_secret_file)
    return GenerationController(
        spec,
        spec.settings(settings),
        SystemClock(),
        time.sleep,
        partial(publish_alias, settings.kafka_bootstrap, secret),
        partial(_compared, settings),
        Topics(settings.kafka_bootstrap).still_end,
        timeout_s=timeout_s,
        max_behind=max_behind,
        accepts_differences=accepts_differences,
    )


def _compared(settings: AppSettings, source: Generation, target: Generation) -> ComparisonVerdict:
    # The broker confirms a commit before each partition has its commit marker: without this wait rows would be missing.
    Topics(settings.kafka_bootstrap).still_end([*source.topics.values(), *target.topics.values()])
    return compare_generations(settings.kafka_bootstrap, settings.run_dir / "generations", source, target)


def _refusal(error: StateError) -> dict[str, Any]:
    _log.error("step_not_taken", kind=type(error).__name__, error=str(error))
    return {"error": str(error), "kind": type(error).__name__}


def _told(taken: GenerationController, journal: Journal) -> dict[str, Any]:
    transfer = journal.transfer
    return {
        "app": journal.app,
        "stores": [store.name for store in taken.spec.stores],
        "live": journal.live,
        "candidate": None if journal.candidate is None else journal.candidate.number,
        "standby": None if journal.standby is None else journal.standby.number,
        "transfer": None if transfer is None else {"phase": transfer.phase, "target": transfer.target},
        "generations": [_described(taken, journal, item) for _, item in sorted(journal.generations.items())],
        "processes": {role.program(journal.app): _process(taken, role) for role in Role},
    }


def _described(taken: GenerationController, journal: Journal, generation: Generation) -> dict[str, Any]:
    checkpoint = taken.checkpoint(generation)
    live = taken.checkpoint(journal.live_generation).committed_position()
    position = checkpoint.committed_position()
    return {
        "generation": generation.number,
        "state": generation.state,
        "topics": dict(generation.topics),
        "migrations": list(generation.migrations),
        "schema": known(generation.migrations),
        "origin": generation.origin,
        "seed_rows": generation.seed_rows,
        "since": generation.since,
        "start": orjson.loads(generation.start.to_json()),
        "outputs": [list(span) for span in generation.outputs],
        "last_batch": checkpoint.last_committed_batch(),
        "position": orjson.loads(position.to_json()),
        "records_behind_live": behind(taken.input_of(live), position),
    }


def _process(taken: GenerationController, role: Role) -> dict[str, Any] | None:
    beat = read_heartbeat(taken.settings.heartbeat_file(role.program(taken.spec.name)))
    if beat is None:
        return None
    return {
        "state": beat.state,
        "generation": beat.generation,
        "pid": beat.pid,
        "age_ms": beat.age_ms(taken.clock.now_ms()),
        "error": beat.error,
    }
