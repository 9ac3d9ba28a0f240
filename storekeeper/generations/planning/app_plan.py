"""The plan of one app's change, for the person who approves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from storekeeper.apps.registry import app_named
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import SystemClock
from storekeeper.errors import ConfigurationError
from storekeeper.generations.catalog import check_changeable
from storekeeper.generations.changes.contract import DeclaredStore, Description, RunningStore
from storekeeper.generations.changes.explain import explain_plan
from storekeeper.generations.changes.plan import Plan, Verdict, in_one_generation, plan_changes, plan_copy
from storekeeper.generations.planning.backfill import as_backfill, inputs_of
from storekeeper.generations.planning.declared import declared_stores
from storekeeper.generations.planning.describe import describe


def planned_change(
    app: str,
    migrations: Sequence[str],
    partitions: int,
    *,
    copy: bool,
    since: str | None = None,
    accept_differences: bool = False,
) -> Plan:
    """The plan of a new generation of an app.

    Args:
        app: the app's name.
        migrations: names, in order.
        partitions: of the new changelogs; 0 leaves them as they are.
        copy: whether to plan a generation even if nothing changes.
        since: from where a backfill reads the input; None starts with the live rows.
        accept_differences: whether a backfill takes over although its rows differ.

    Raises:
        ConfigurationError: the app can't have generations or has not begun yet; or as `plan_of_app`.
    """
    spec = app_named(app)
    check_changeable(spec)
    stores = [store.name for store in spec.stores]
    settings = AppSettings.of_platform()
    running = describe(settings, SystemClock()).stores
    if not running.keys() >= set(stores):
        msg = f"{app} has not begun yet: there is nothing to change; start it with the version that you want"
        raise ConfigurationError(msg)
    wanted = dict.fromkeys(stores, partitions) if partitions else {}
    declared = [found for found in declared_stores(wanted) if found.store in stores]
    plan = plan_of_app(declared, running, migrations, copy=copy or since is not None)
    if since is None:
        return plan
    inputs = inputs_of(spec, spec.settings(settings), since)
    return as_backfill(plan, since, inputs, accept_differences=accept_differences)


def plan_answer(app: str, plan: Plan) -> dict[str, Any]:
    """A plan as an answer; `text` is Markdown."""
    return {
        "app": app,
        "stores": [change.store for change in plan.changes],
        "verdict": plan.verdict,
        "conf": next((dict(change.conf) for change in plan.changes if change.conf), {}),
        "reasons": [detail for change in plan.changes for detail in change.details],
        "text": explain_plan(plan),
    }


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
        rest = f"those of {declared[0].app} that are not made are {_chain(pending)}"
        msg = f"there is no migration {unknown[0][:140]!r}: {rest}"
        raise ConfigurationError(msg)
    wanted = [_as_wanted(store, running[store.store], migrations) for store in declared]
    plan = plan_changes(wanted, Description(0, {store.store: running[store.store] for store in declared}))
    if copy and all(change.verdict is Verdict.UNCHANGED for change in plan.changes):
        return Plan(in_one_generation([plan_copy(store, running[store.store]) for store in wanted]))
    return plan


def _as_wanted(store: DeclaredStore, running: RunningStore, migrations: Sequence[str]) -> DeclaredStore:
    """The store with only its made or named migrations.

    Raises:
        ConfigurationError: one is made already, or one in between is left out.
    """
    own = [step.name for step in store.steps]
    named = [name for name in migrations if name in own]
    pending = _pending(store, running)
    made = [name for name in named if name in running.migrations]
    if made:
        msg = (
            f"migration {made[0]} has already run: the migrations of {store.store} that have not are {_chain(pending)}"
        )
        raise ConfigurationError(msg)
    if named != pending[: len(named)]:
        msg = f"migrations build on one another: name them in the order {_chain(pending)}, and leave none out"
        raise ConfigurationError(msg)
    kept = {*running.migrations, *named}
    return replace(store, steps=tuple(step for step in store.steps if step.name in kept))


def _pending(store: DeclaredStore, running: RunningStore) -> list[str]:
    return [step.name for step in store.steps if step.name not in running.migrations]


def _chain(names: Sequence[str]) -> str:
    return " -> ".join(names) or "none"
