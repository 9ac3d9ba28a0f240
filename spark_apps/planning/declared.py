"""The stores that the apps declare, as contracts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_apps.generations.catalog import migrations_of
from spark_apps.generations.migration import StoreMigration
from spark_apps.registry import APPS, ON_DEMAND_APPS
from spark_apps.spec import AppSpec, StoreSpec, ValueField
from state.migration.contract import DeclaredStore, Fields, Step


def declared_stores(partitions: Mapping[str, int] | None = None) -> list[DeclaredStore]:
    """Every store of every app. `partitions`: how many a store's changelog is to have, where that is to change."""
    wanted = partitions or {}
    apps = [*APPS.values(), *ON_DEMAND_APPS.values()]
    return [_declared(app, store, wanted.get(store.name)) for app in apps for store in app.stores]


def _declared(app: AppSpec, store: StoreSpec, partitions: int | None) -> DeclaredStore:
    return DeclaredStore(
        store=store.name,
        app=app.name,
        topic=store.changelog_topic,
        kind=store.kind.value,
        score_field=store.score_field,
        fields=fields_of(store.value_fields),
        steps=tuple(_step(migration) for migration in migrations_of(store.name)),
        partitions=partitions,
        key_field=store.key_field,
        unchangeable=_why_unchangeable(app),
    )


def _why_unchangeable(app: AppSpec) -> str | None:
    """Why the DAG can't change the app's store; None if it can."""
    if app.why_no_generations is None and app.name in ON_DEMAND_APPS:
        return "it runs together with other apps: start it by itself, and take the steps by hand (docs/migrations.md)"
    return app.why_no_generations


def _step(migration: StoreMigration) -> Step:
    return Step(
        migration.name,
        migration.summary,
        migration.to_version,
        fields_of(migration.value_fields),
        changes_key=migration.changes_key,
        reversible=migration.revert is not None,
        stores=migration.stores,
        offered=migration.offered,
    )


def fields_of(fields: Iterable[ValueField]) -> Fields:
    """SQL type by name."""
    return {item.name: item.sql_type for item in fields}
