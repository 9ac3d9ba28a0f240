"""`python -m spark_apps.planning APP --migration NAME …`: the plan of one app's change, for whoever has to approve it.

The last line on standard output is a JSON object: `text` is the plan in Markdown. Exit codes: 0 there is something to
do and it can be done, 3 refused (the object has `error` and `reasons`), 1 failed.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated

import orjson
import structlog
import typer

from spark_apps.cli import configure_logging, exit_code
from spark_apps.generations.catalog import check_changeable
from spark_apps.planning.declared import declared_stores
from spark_apps.planning.describe import describe
from spark_apps.registry import app_named
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec
from state.clock import SystemClock
from state.errors import ConfigurationError, StateError
from state.migration.contract import DeclaredStore, Description, RunningStore
from state.migration.explain import explain_change
from state.migration.plan import Change, Verdict, plan_changes, plan_copy

EXIT_REFUSED = 3

_log = structlog.get_logger(__name__)


def plan_of_app(declared: DeclaredStore, running: RunningStore, migrations: list[str], *, copy: bool = False) -> Change:
    """What changing one store by the migrations named would be; with `copy`, also without any change.

    Raises:
        ConfigurationError: there is no such migration, it is made already, or one in between is left out.
    """
    known = [step.name for step in declared.steps]
    made = [name for name in migrations if name in running.migrations]
    unknown = [name for name in migrations if name not in known]
    if unknown or made:
        what = f"there is no migration {unknown[0][:140]!r}" if unknown else f"migration {made[0]} is made already"
        msg = f"{what}: those of {declared.store} that are not made are {_rest(known, running)}"
        raise ConfigurationError(msg)
    pending = [name for name in known if name not in running.migrations]
    if migrations != pending[: len(migrations)]:
        msg = f"migrations build on one another: name them in the order {_rest(known, running)}, and leave none out"
        raise ConfigurationError(msg)
    kept = {*running.migrations, *migrations}
    wanted = replace(declared, steps=tuple(replace(step, offered=True) for step in declared.steps if step.name in kept))
    if copy:
        return plan_copy(wanted, running)
    (change,) = plan_changes([wanted], Description(0, {running.store: running})).changes
    return change


def _only_store(spec: AppSpec) -> str:
    check_changeable(spec)
    if len(spec.stores) > 1:
        msg = f"{spec.name} keeps {len(spec.stores)} stores: take the steps by hand (docs/migrations.md)"
        raise ConfigurationError(msg)
    return spec.stores[0].name


def _rest(known: list[str], running: RunningStore) -> str:
    return " -> ".join(name for name in known if name not in running.migrations) or "none"


def plan(
    app: Annotated[str, typer.Argument(help="The app's name.")],
    migration: Annotated[list[str] | None, typer.Option(help="A change to make, by name; again for the next.")] = None,
    partitions: Annotated[int, typer.Option(min=0, help="Of the new changelog; 0 leaves them as they are.")] = 0,
    *,
    copy: Annotated[bool, typer.Option("--copy", help="Plan one even if nothing is to be changed.")] = False,
) -> None:
    """Plan a new generation of an app."""
    store = _only_store(app_named(app))
    running = describe(AppSettings(), SystemClock()).stores.get(store)
    if running is None:
        msg = f"{app} has not begun yet: there is nothing to change; start it with the version that you want"
        raise ConfigurationError(msg)
    wanted = {store: partitions} if partitions else {}
    declared = next(found for found in declared_stores(wanted) if found.store == store)
    change = plan_of_app(declared, running, migration or [], copy=copy)
    answer = {
        "app": app,
        "store": store,
        "verdict": change.verdict,
        "keys": change.keys,
        "size_bytes": change.size_bytes,
        "minutes": change.minutes,
        "conf": dict(change.conf),
        "reasons": list(change.details),
        "text": explain_change(change),
    }
    typer.echo(orjson.dumps(answer, option=orjson.OPT_SORT_KEYS).decode())
    if change.verdict is not Verdict.MIGRATE:
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
