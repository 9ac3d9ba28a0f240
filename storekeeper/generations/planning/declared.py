"""The stores that the apps declare, as contracts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec, StoreSpec
from storekeeper.apps.topology_app import described, kept_inside, with_topology
from storekeeper.errors import ConfigurationError
from storekeeper.generations.catalog import (
    check_repartitioned,
    describe_of,
    known_migrations,
    migrations_of,
    topology_of,
)
from storekeeper.generations.changes.contract import BY_SCHEMA, AppTopology, DeclaredStore, Description, Fields, Step
from storekeeper.generations.changes.plan import Plan, topology_changes
from storekeeper.topology.slots import assigned


def declared_stores(partitions: Mapping[str, int] | None = None) -> list[DeclaredStore]:
    """Every store of every app.

    Args:
        partitions: the new number of a store's partitions, where it changes. It applies to all stores of the app:
            a generation has one number.

    Raises:
        ConfigurationError: two stores of one app get different numbers, or a store's topic fixes its number.
    """
    return [
        _declared(app, store, number)
        for app in APPS.values()
        for number in [_one_number(app, partitions or {})]
        for store in app.stores
    ]


def declared_topologies(running: Mapping[str, AppTopology]) -> list[AppTopology]:
    """The internal stores and topics that the running apps would have with this code, in their live generations.

    An app whose migrations are gone is left out: the plan reports that for its stores.
    """
    topologies: list[AppTopology] = []
    for app in (APPS[name] for name in running if name in APPS):
        there = running[app.name]
        if app.describe is None:
            continue
        with suppress(ConfigurationError):
            describe = app.describe if not there.migrations else describe_of(app, there.migrations)
            settings = AppSettings().in_generation(there.generation)
            topology = described(app.name, describe, settings)
            stores, repartitions = kept_inside(topology)
            topologies.append(replace(there, stores=stores, repartitions=repartitions, slots=assigned(topology, {})))
    return topologies


def with_topologies(plan: Plan, running: Description) -> Plan:
    """A plan with the changes of the apps' internal stores and topics added."""
    changes = [
        change
        for declared in declared_topologies(running.topologies)
        for change in topology_changes(declared, running.topologies[declared.app])
    ]
    return Plan((*plan.changes, *changes))


def _one_number(app: AppSpec, partitions: Mapping[str, int]) -> int | None:
    numbers = {store.name: partitions[store.name] for store in app.stores if store.name in partitions}
    if len(set(numbers.values())) > 1:
        named = " and ".join(f"{store}={number}" for store, number in numbers.items())
        msg = f"{named} can't be used: all stores of {app.name} change in one generation, to one number of partitions"
        raise ConfigurationError(msg)
    if numbers:
        check_repartitioned(app.name, topology_of(app, known_migrations(app)))
    return next(iter(numbers.values()), None)


def _declared(app: AppSpec, store: StoreSpec, partitions: int | None) -> DeclaredStore:
    return DeclaredStore(
        store=store.name,
        app=app.name,
        topic=store.changelog_topic,
        kind=store.kind.value,
        score_field=store.score_field,
        fields=_fields_of(store),
        steps=tuple(_steps(app, store)),
        partitions=partitions,
        unchangeable=app.why_no_generations,
    )


def _steps(app: AppSpec, store: StoreSpec) -> Iterator[Step]:
    names: list[str] = []
    for migration in migrations_of(store.name):
        names.append(migration.name)
        spec = with_topology(app, describe_of(app, names))
        changed = next((each for each in spec.stores if each.name == store.name), None)
        yield Step(
            migration.name,
            migration.summary,
            migration.to_version,
            {} if changed is None else _fields_of(changed),
            changes_key=migration.changes_key,
        )


def _fields_of(store: StoreSpec) -> Fields:
    return {**store.fields, **BY_SCHEMA} if store.by_schema else store.fields
