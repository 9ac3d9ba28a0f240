"""The changes that there are, by name, and what an app and its store are in one of its generations. Free of Spark."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from spark_apps.generations.errors import GenerationRefusedError
from spark_apps.generations.journal import FIRST_GENERATION, Generation, Journal
from spark_apps.generations.migration import Chain, StoreMigration, function_named
from spark_apps.generations.seed_rules import SeedRules
from spark_apps.registry import APPS
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec, StoreSpec
from state.errors import ConfigurationError
from state.query.definitions import WINDOWED, StoreKind

_OF_PROCESSORS = "spark_apps.processor.seeding:SEED_RULES"


@cache
def registered_migrations() -> Mapping[str, StoreMigration]:
    """The migrations that the registered apps name in their specs, by name.

    Raises:
        ConfigurationError: an app names what is none, or two migrations have one name.
    """
    found: dict[str, StoreMigration] = {}
    for app in APPS.values():
        for migration in () if app.migrations is None else _imported_all(app.migrations):
            if migration.name in found:
                msg = f"{app.name} names a second migration {migration.name!r}: give it another name"
                raise ConfigurationError(msg)
            found[migration.name] = migration
    return found


def migration_named(name: str) -> StoreMigration:
    """The migration of that name. One that isn't registered is named by its variable: `<module>:<variable>`.

    Raises:
        GenerationRefusedError: there is none.
    """
    if ":" in name:
        return _imported(name)
    registered = registered_migrations()
    if name not in registered:
        msg = f"there is no migration {name[:140]!r}: choose one of {', '.join(registered)}"
        raise GenerationRefusedError(msg)
    return registered[name]


def known_migrations(spec: AppSpec) -> list[str]:
    """The names of the registered migrations of an app's stores."""
    return [migration.name for store in spec.stores for migration in migrations_of(store.name)]


def migrations_of(store: str) -> tuple[StoreMigration, ...]:
    """The registered migrations of a store, in the order of their versions."""
    own = [migration for migration in registered_migrations().values() if migration.store == store]
    return tuple(sorted(own, key=lambda migration: migration.to_version))


def chain_of(names: Sequence[str]) -> Chain:
    """The migrations of these names, one after the other.

    Raises:
        GenerationRefusedError: there is none of a name, or one doesn't begin where the one of its store before it ends.
    """
    steps = tuple(map(migration_named, names))
    versions: dict[str, int] = {}
    for step in steps:
        version = versions.get(step.store, 1)
        if step.to_version != version + 1:
            msg = (
                f"migration {step.name} makes version {step.to_version} of version {step.to_version - 1}, "
                f"but store {step.store} would be at version {version}: put the missing ones in front of it"
            )
            raise GenerationRefusedError(msg)
        versions[step.store] = step.to_version
    return Chain(steps)


def check_changeable(spec: AppSpec) -> None:
    """Refuses an app that can't have generations.

    Raises:
        GenerationRefusedError: it can't.
    """
    if spec.why_no_generations is not None:
        msg = f"{spec.name} can't begin with another generation's content: {spec.why_no_generations}"
        raise GenerationRefusedError(msg)


def check_fitting(spec: AppSpec, migrations: Sequence[str]) -> None:
    """Refuses migrations that are not of the app's stores, or of a kind that these can't undergo.

    Raises:
        GenerationRefusedError: one of them is.
    """
    kinds = {store.name: store.kind for store in spec.stores}
    for step in map(migration_named, migrations):
        why = _why_not_fitting(step, kinds)
        if why is not None:
            msg = f"migration {step.name} {why}"
            raise GenerationRefusedError(msg)


def _why_not_fitting(step: StoreMigration, kinds: Mapping[str, StoreKind]) -> str | None:
    if step.store not in kinds:
        return f"is of store {step.store}, not of {' or '.join(kinds)}"
    if step.stores and len(kinds) > 1:
        return "puts rows into other stores, which only an app with exactly one store can do"
    if step.changes_key and kinds[step.store] in WINDOWED:
        return f"changes keys, and those of {step.store} hold windows of time: change its values alone"
    return None


def seed_rules(spec: AppSpec) -> SeedRules:
    """The app's rules for seeds.

    Raises:
        GenerationRefusedError: it has none.
    """
    check_changeable(spec)
    module, _, name = (spec.seeding or _OF_PROCESSORS).partition(":")
    rules: SeedRules = getattr(importlib.import_module(module), name)
    return rules


def first_journal(spec: AppSpec) -> Journal:
    """The journal of an app that has never changed."""
    check_changeable(spec)
    return Journal.first(spec.name, {store.name: store.changelog_topic for store in spec.stores})


def spec_of(spec: AppSpec, generation: Generation) -> AppSpec:
    """The app as it is in one of its generations. Raises as `stores_of`."""
    return replace(spec, stores=stores_of(spec, generation))


def stores_of(spec: AppSpec, generation: Generation) -> tuple[StoreSpec, ...]:
    """An app's stores in one of its generations, with topics and fields: themselves, or several in place of one.

    Raises:
        GenerationRefusedError: it was made with other stores than the app has now.
    """
    return _with_topics(spec, generation, generation.changelogs)


def written_stores_of(spec: AppSpec, generation: Generation) -> tuple[StoreSpec, ...]:
    """An app's own stores in one of its generations, with the topics that it writes to. Raises as `stores_of`."""
    return _with_topics(spec, generation, generation.topics)


def _with_topics(spec: AppSpec, generation: Generation, topics: Mapping[str, str]) -> tuple[StoreSpec, ...]:
    own = {store.name: store for store in spec.stores}
    if own.keys() != generation.topics.keys():
        msg = (
            f"{spec.name} keeps {', '.join(own)} now, and its generation {generation.number} was made with "
            f"{', '.join(generation.topics)}: put its stores back, or start it as another app"
        )
        raise GenerationRefusedError(msg)
    if generation.number == FIRST_GENERATION:
        return spec.stores
    chain = chain_of(generation.migrations)
    return tuple(_in_generation(own[generation.own_store(name)], name, topic, chain) for name, topic in topics.items())


def _in_generation(store: StoreSpec, name: str, topic: str, chain: Chain) -> StoreSpec:
    steps = chain.of(store.name).steps
    fields = steps[-1].value_fields if steps else store.value_fields
    return replace(store, name=name, topic=topic, schema_version=1 + len(steps), value_fields=fields)


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


def _imported_all(name: str) -> tuple[StoreMigration, ...]:
    found: object = function_named(name)
    if not isinstance(found, tuple) or not all(isinstance(item, StoreMigration) for item in found):
        msg = f"{name[:140]!r} is no tuple of migrations: name the variable that holds one"
        raise ConfigurationError(msg)
    return found
