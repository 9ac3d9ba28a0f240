"""The changes that there are, by name, and what an app and its store are in one of its generations. Free of Spark."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from spark_apps.generations.errors import GenerationRefusedError
from spark_apps.generations.journal import FIRST_GENERATION, Generation, Journal
from spark_apps.generations.migration import Chain, StoreMigration, function_named
from spark_apps.generations.seed_rules import SeedRules
from spark_apps.loyalty.migrations import MIGRATIONS
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec, StoreSpec

_OF_PROCESSORS = "spark_apps.processor.seeding:SEED_RULES"
_MIGRATIONS = {migration.name: migration for migration in MIGRATIONS}


def migration_named(name: str) -> StoreMigration:
    """The migration of that name. One that isn't registered is named by its variable: `<module>:<variable>`.

    Raises:
        GenerationRefusedError: there is none.
    """
    if ":" in name:
        return _imported(name)
    if name not in _MIGRATIONS:
        msg = f"there is no migration {name[:140]!r}: choose one of {', '.join(_MIGRATIONS)}"
        raise GenerationRefusedError(msg)
    return _MIGRATIONS[name]


def migrations_of(store: str) -> tuple[StoreMigration, ...]:
    """The registered migrations of a store, in the order of their versions."""
    own = [migration for migration in _MIGRATIONS.values() if migration.store == store]
    return tuple(sorted(own, key=lambda migration: migration.to_version))


def chain_of(names: Sequence[str]) -> Chain:
    """The migrations of these names, one after the other.

    Raises:
        GenerationRefusedError: there is none of a name, or one doesn't begin where the one before it ends.
    """
    steps = tuple(map(migration_named, names))
    for version, step in enumerate(steps, start=1):
        if step.to_version != version + 1:
            msg = (
                f"migration {step.name} makes version {step.to_version} of version {step.to_version - 1}, "
                f"but the store would be at version {version}: put the missing ones in front of it"
            )
            raise GenerationRefusedError(msg)
    return Chain(steps)


def changing_app(spec: AppSpec) -> StoreSpec:
    """The store of an app that can have generations.

    Raises:
        GenerationRefusedError: it can't.
    """
    if spec.why_no_generations is not None:
        msg = f"{spec.name} can't begin with another generation's content: {spec.why_no_generations}"
        raise GenerationRefusedError(msg)
    return spec.stores[0]


def seed_rules(spec: AppSpec) -> SeedRules:
    """The app's rules for seeds.

    Raises:
        GenerationRefusedError: it has none.
    """
    changing_app(spec)
    module, _, name = (spec.seeding or _OF_PROCESSORS).partition(":")
    rules: SeedRules = getattr(importlib.import_module(module), name)
    return rules


def first_journal(spec: AppSpec) -> Journal:
    """The journal of an app that has never changed."""
    store = changing_app(spec)
    return Journal.first(spec.name, store.name, store.changelog_topic)


def spec_of(spec: AppSpec, generation: Generation) -> AppSpec:
    """The app as it is in one of its generations."""
    if generation.number == FIRST_GENERATION:
        return spec
    return replace(spec, stores=stores_of(changing_app(spec), generation))


def stores_of(store: StoreSpec, generation: Generation) -> tuple[StoreSpec, ...]:
    """What an app's own store is in one of its generations, with topics and fields: itself, or several in its place."""
    if generation.number == FIRST_GENERATION:
        return (store,)
    steps = chain_of(generation.migrations).steps
    return tuple(
        replace(
            store,
            name=name,
            topic=topic,
            schema_version=1 + len(steps),
            value_fields=steps[-1].value_fields if steps else store.value_fields,
        )
        for name, topic in generation.changelogs(store.name).items()
    )


def settings_of(settings: AppSettings, generation: Generation) -> AppSettings:
    """The settings of one of the generations."""
    return settings.model_copy(update={"generation": generation.number})


def known(names: Iterable[str]) -> str:
    """Migrations for a reader, in the order in which they are applied."""
    return " -> ".join(names) or "no migration"


def _imported(name: str) -> StoreMigration:
    found: object = function_named(name)
    if not isinstance(found, StoreMigration):
        msg = f"{name[:140]!r} is no migration: name the variable that holds one"
        raise GenerationRefusedError(msg)
    return found
