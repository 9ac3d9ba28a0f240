"""`python -m spark_apps.planning APP --migration NAME …`: the plan of one app's change, for the person who approves it.

The last line on standard output is a JSON object: `text` is the plan in Markdown. Exit codes: 0 there is something to
do and it can be done, 3 refused (the object has `error` and `reasons`), 1 failed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import orjson
import structlog
import typer

from spark_apps.app_log import configure_logging
from spark_apps.cli import exit_code
from spark_apps.generations.catalog import check_changeable
from spark_apps.planning.declared import declared_stores
from spark_apps.planning.describe import describe
from spark_apps.registry import app_named
from spark_apps.settings import AppSettings
from state.clock import SystemClock
from state.errors import ConfigurationError, StateError
from state.migration.contract import DeclaredStore, Description, RunningStore
from state.migration.explain import explain_plan
from state.migration.plan import Plan, Verdict, in_one_generation, plan_changes, plan_copy

EXIT_REFUSED = 3

_log = structlog.get_logger(__name__)


def plan_of_app(
    declared: Sequence[DeclaredStore],
    running: Mapping[str, RunningStore],
    migrations: Sequence[str],
    *,
    copy: bool = False,
) -> Plan:
    """The plan of the named migrations for an app's stores; with `copy`, also if nothing changes.

    Args:
        declared: all of the app's stores.
        running: the same stores as they run, by name.
        migrations: names, in order; they may be of several of the stores.
        copy: whether to plan a generation even if nothing changes.

    Raises:
        ConfigurationError: a migration is unknown or made already, or one in between is left out.
    """
    of_app = [step.name for store in declared for step in store.steps]
    unknown = [name for name in migrations if name not in of_app]
    if unknown:
        pending = [name for store in declared for name in _pending(store, running[store.store])]
        rest = f"those of {declared[0].app} that are not made are {_told(pending)}"
        msg = f"there is no migration {unknown[0][:140]!r}: {rest}"
        raise ConfigurationError(msg)
    wanted = [_as_wanted(store, running[store.store], migrations) for store in declared]
    plan = plan_changes(wanted, Description(0, {store.store: running[store.store] for store in declared}))
    if copy and all(change.verdict is Verdict.UNCHANGED for change in plan.changes):
        return Plan(in_one_generation([plan_copy(store, running[store.store]) for store in wanted]))
    return plan


def _as_wanted(store: DeclaredStore, running: RunningStore, migrations: Sequence[str]) -> DeclaredStore:
    """The store with only its made or named migrations, all of them offered.

    Raises:
        ConfigurationError: one is made already, or one in between is left out.
    """
    own = [step.name for step in store.steps]
    named = [name for name in migrations if name in own]
    pending = _pending(store, running)
    made = [name for name in named if name in running.migrations]
    if made:
        msg = f"migration {made[0]} is made already: those of {store.store} that are not made are {_told(pending)}"
        raise ConfigurationError(msg)
    if named != pending[: len(named)]:
        msg = f"migrations build on one another: name them in the order {_told(pending)}, and leave none out"
        raise ConfigurationError(msg)
    kept = {*running.migrations, *named}
    return replace(store, steps=tuple(replace(step, offered=True) for step in store.steps if step.name in kept))


def _pending(store: DeclaredStore, running: RunningStore) -> list[str]:
    return [step.name for step in store.steps if step.name not in running.migrations]


def _told(names: Sequence[str]) -> str:
    return " -> ".join(names) or "none"


def plan(
    app: Annotated[str, typer.Argument(help="The app's name.")],
    migration: Annotated[list[str] | None, typer.Option(help="A change to make, by name; again for the next.")] = None,
    partitions: Annotated[int, typer.Option(min=0, help="Of the new changelogs; 0 leaves them as they are.")] = 0,
    *,
    copy: Annotated[bool, typer.Option("--copy", help="Plan one even if nothing is to be changed.")] = False,
) -> None:
    """Plan a new generation of an app."""
    spec = app_named(app)
    check_changeable(spec)
    stores = [store.name for store in spec.stores]
    running = describe(AppSettings.of_platform(), SystemClock()).stores
    if not running.keys() >= set(stores):
        msg = f"{app} has not begun yet: there is nothing to change; start it with the version that you want"
        raise ConfigurationError(msg)
    wanted = dict.fromkeys(stores, partitions) if partitions else {}
    declared = [found for found in declared_stores(wanted) if found.store in stores]
    _answer(app, plan_of_app(declared, running, migration or [], copy=copy))


def _answer(app: str, plan: Plan) -> None:
    """Prints a plan.

    Raises:
        typer.Exit: with `EXIT_REFUSED`, if there is nothing to do or the change is refused.
    """
    answer = {
        "app": app,
        "stores": [change.store for change in plan.changes],
        "verdict": plan.verdict,
        "conf": next((dict(change.conf) for change in plan.changes if change.conf), {}),
        "reasons": [detail for change in plan.changes for detail in change.details],
        "text": explain_plan(plan),
    }
    typer.echo(orjson.dumps(answer, option=orjson.OPT_SORT_KEYS).decode())
    if plan.verdict is not Verdict.MIGRATE:
        raise typer.Exit(EXIT_REFUSED)


def main() -> None:
    """Plans, and turns errors into one JSON object and an exit code."""
    configure_logging()
    try:
        typer.run(plan)
    except ConfigurationError as error:
        _log.error("refused", error=str(error))
        typer.echo(orjson.dumps({"error": str(error), "reasons": [str(error)]}).decode())
        sys.exit(EXIT_REFUSED)
    except StateError as error:
        _log.error("failed", kind=type(error).__name__, error=str(error))
        sys.exit(exit_code(error))


if __name__ == "__main__":
    main()
