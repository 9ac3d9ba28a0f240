"""The stores that the apps declare, as contracts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from spark_apps.generations.catalog import describe_of, migrations_of
from spark_apps.registry import APPS
from spark_apps.spec import AppSpec, StoreSpec, ValueField
from spark_apps.topology_app import with_topology
from state.errors import ConfigurationError
from state.migration.contract import DeclaredStore, Fields, Step


def declared_stores(partitions: Mapping[str, int] | None = None) -> list[DeclaredStore]:
    """Every store of every app.

    Args:
        partitions: how many a store's changelog is to have, where that is to change. Those of all stores of its app
            change with it, for a generation has one number.

    Raises:
        ConfigurationError: two stores of one app are to have different numbers.
    """
    return [
        _declared(app, store, number)
        for app in APPS.values()
        for number in [_one_number(app, partitions or {})]
        for store in app.stores
    ]


def _one_number(app: AppSpec, partitions: Mapping[str, int]) -> int | None:
    wanted = {store.name: partitions[store.name] for store in app.stores if store.name in partitions}
    if len(set(wanted.values())) > 1:
        named = " and ".join(f"{store}={number}" for store, number in wanted.items())
        msg = f"{named} can't be: all stores of {app.name} change in one generation, to one number of partitions"
        raise ConfigurationError(msg)
    return next(iter(wanted.values()), None)


def _declared(app: AppSpec, store: StoreSpec, partitions: int | None) -> DeclaredStore:
    return DeclaredStore(
        store=store.name,
        app=app.name,
        topic=store.changelog_topic,
        kind=store.kind.value,
        score_field=store.score_field,
        fields=fields_of(store.value_fields),
        steps=tuple(_steps(app, store)),
        partitions=partitions,
        unchangeable=app.why_no_generations,
    )


def _steps(app: AppSpec, store: StoreSpec) -> Iterator[Step]:
    names: list[str] = []
    for migration in migrations_of(store.name):
        names.append(migration.name)
        there = with_topology(app, describe_of(app, names))
        fields = next((found.value_fields for found in there.stores if found.name == store.name), ())
        yield Step(
            migration.name,
            migration.summary,
            migration.to_version,
            fields_of(fields),
            changes_key=migration.changes_key,
            offered=migration.offered,
        )


def fields_of(fields: Iterable[ValueField]) -> Fields:
    """SQL type by name."""
    return {item.name: item.sql_type for item in fields}
