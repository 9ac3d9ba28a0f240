"""The migrations by name, and an app and its stores in one of its generations. Free of Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache

from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import (
    Describe,
    changelog_topics,
    described,
    generation_topic,
    logged_stores,
    with_topology,
)
from storekeeper.errors import ConfigurationError
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.journal import BEGINNING, FIRST_GENERATION, TABLES, Generation, Journal
from storekeeper.generations.migration import Chain, StoreMigration, function_named
from storekeeper.generations.status import AppFacts, check_changeable
from storekeeper.stores.store_definitions import WINDOWED, ServedKind
from storekeeper.topology.operators.repartition import RepartitionSource
from storekeeper.topology.operators.source import Source
from storekeeper.topology.plan import Topology


@cache
def registered_migrations() -> Mapping[str, StoreMigration]:
    """The migrations that the registered apps name in their specs, by name.

    Raises:
        ConfigurationError: an app names something that is not a migration, or two migrations have the same name.
    """
    migrations: dict[str, StoreMigration] = {}
    for app in APPS.values():
        for migration in () if app.migrations is None else _imported_all(app.migrations):
            if migration.name in migrations:
                msg = f"{app.name} names a second migration {migration.name!r}: give it another name"
                raise ConfigurationError(msg)
            migrations[migration.name] = migration
    return migrations


def migration_named(name: str) -> StoreMigration:
    """The migration of that name. One that isn't registered is named by its variable: `<module>:<variable>`.

    Raises:
        GenerationRefusedError: there is none.
    """
    if ":" in name:
        return _imported(name)
    registered = registered_migrations()
    if name not in registered:
        raise GenerationRefusedError(f"there is no migration {name[:140]!r}: choose one of {', '.join(registered)}")
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
        GenerationRefusedError: a name is unknown, or a migration doesn't begin at the version of its store before it.
    """
    steps = tuple(map(migration_named, names))
    versions: dict[str, int] = {}
    for step in steps:
        version = versions.get(step.store, 1)
        if step.to_version != version + 1:
            raise GenerationRefusedError(
                f"migration {step.name} makes version {step.to_version} of version {step.to_version - 1}, "
                f"but store {step.store} would be at version {version}: put the missing ones in front of it"
            )
        versions[step.store] = step.to_version
    return Chain(steps)


def facts_of(spec: AppSpec, settings: AppSettings) -> AppFacts:
    """What the status of an app's generations needs to know of its code."""
    why = spec.why_no_generations
    changelogs = {} if why is not None else changelog_topics(spec.name, topology_of(spec, ()))
    stores = tuple(store.name for store in spec.stores)
    return AppFacts(spec.name, stores, changelogs, tuple(spec.sources(settings)), why)


def check_since(since: str | None) -> None:
    """Refuses a `since` that is not a valid start of the input.

    Raises:
        GenerationRefusedError: it is neither `beginning`, nor `tables`, nor a time with its zone.
    """
    if since in {None, BEGINNING, TABLES}:
        return
    try:
        is_time = datetime.fromisoformat(since or "").tzinfo is not None
    except ValueError:
        is_time = False
    if not is_time:
        raise GenerationRefusedError(
            f"{(since or '')[:40]!r} is not a place to begin: say `beginning`, `tables`, or a time with its zone: "
            "2026-01-31T00:00:00Z"
        )


def check_fitting(spec: AppSpec, made: Sequence[str], migrations: Sequence[str], partitions: int | None = None) -> None:
    """Refuses migrations that are not of the app's stores, or that these can't undergo.

    Args:
        spec: the app.
        made: names of the live generation's migrations.
        migrations: those that the new generation has beyond them.
        partitions: of its changelogs; None leaves them to its topology.

    Raises:
        GenerationRefusedError: a migration doesn't fit, or the number of partitions is fixed.
    """
    kinds = {store.name: store.kind for store in spec.stores}
    for step in map(migration_named, migrations):
        why = _why_not_fitting(step, kinds)
        if why is not None:
            raise GenerationRefusedError(f"migration {step.name} {why}")
    if partitions is not None:
        check_repartitioned(spec.name, topology_of(spec, [*made, *migrations]))


def _why_not_fitting(step: StoreMigration, kinds: Mapping[str, ServedKind]) -> str | None:
    if step.store not in kinds:
        return f"is of store {step.store}, not of {' or '.join(kinds)}"
    if kinds[step.store] is ServedKind.VERSIONED:
        return f"is of versioned store {step.store}, whose rows can't be converted: begin with the input instead"
    if step.changes_key and kinds[step.store] in WINDOWED:
        return f"changes keys, and those of {step.store} hold windows of time: change its values alone"
    return None


def check_repartitioned(app: str, topology: Topology) -> None:
    """Refuses to change the number of partitions if an input topic of a store fixes it.

    Raises:
        GenerationRefusedError: the topology has such a store.
    """
    for sub in topology.sub_topologies:
        fixed = [source.topic for source in sub.sources if not _has_any_number(source)]
        stores = [spec.name for spec in sub.stores if spec.options.logging and not sub.is_global]
        if fixed and stores:
            raise GenerationRefusedError(
                f"store {stores[0]} of {app} has as many partitions as {fixed[0]}, because its tasks read that topic: "
                "leave `partitions` out, or repartition() the stream before the store, by a migration"
            )


def _has_any_number(source: Source) -> bool:
    return isinstance(source, RepartitionSource) and source.sink.partitions is None


def first_journal(spec: AppSpec) -> Journal:
    """The journal of an app that has never changed.

    Raises:
        GenerationRefusedError: it can't have generations.
    """
    check_changeable(spec)
    return Journal.first(spec.name, changelog_topics(spec.name, topology_of(spec, ())))


def describe_of(spec: AppSpec, migrations: Sequence[str]) -> Describe:
    """The function that describes an app's topology after migrations.

    Raises:
        GenerationRefusedError: the app can't have generations; or as `chain_of`.
    """
    check_changeable(spec)
    assert spec.describe is not None  # noqa: S101 (it can have generations)
    named = chain_of(migrations).describe
    return spec.describe if named is None else function_named(named)


def topology_of(spec: AppSpec, migrations: Sequence[str]) -> Topology:
    """An app's topology after migrations. Raises as `describe_of`."""
    return described(spec.name, describe_of(spec, migrations), AppSettings())


def changelogs_of(spec: AppSpec, generation: Generation) -> dict[str, str]:
    """The changelog of each store in a generation: also of stores that its topology got after it was made.

    Raises as `describe_of`.
    """
    now = changelog_topics(spec.name, topology_of(spec, generation.migrations), generation.number)
    return now | dict(generation.topics)


def spec_of(spec: AppSpec, generation: Generation) -> AppSpec:
    """The app in one of its generations: its topology, and its stores with their topics and versions.

    Raises:
        GenerationRefusedError: the generation was made with stores that its topology doesn't have any more.
    """
    topology = topology_of(spec, generation.migrations)
    gone = generation.topics.keys() - {store.name for store in logged_stores(topology)}
    if gone:
        raise GenerationRefusedError(
            f"generation {generation.number} of {spec.name} was made with store {min(gone)}, and its topology has no "
            "such store any more: put it back, or take it out by a migration"
        )
    chain = chain_of(generation.migrations)
    numbered_spec = numbered(with_topology(spec, describe_of(spec, generation.migrations)), generation.number)
    stores = (replace(store, schema_version=1 + len(chain.of(store.name).steps)) for store in numbered_spec.stores)
    return replace(numbered_spec, stores=tuple(stores))


def numbered(spec: AppSpec, number: int) -> AppSpec:
    """The app as it is declared, with the changelogs of the generation of that number."""
    stores = (replace(store, topic=generation_topic(store.changelog_topic, number)) for store in spec.stores)
    return spec if number == FIRST_GENERATION else replace(spec, stores=tuple(stores))


def _imported(name: str) -> StoreMigration:
    migration: object = function_named(name)
    if not isinstance(migration, StoreMigration):
        raise GenerationRefusedError(f"{name[:140]!r} is not a migration: name the variable that holds one")
    return migration


def _imported_all(name: str) -> tuple[StoreMigration, ...]:
    migrations: object = function_named(name)
    if not isinstance(migrations, tuple) or not all(isinstance(item, StoreMigration) for item in migrations):
        raise ConfigurationError(f"{name[:140]!r} is not a tuple of migrations: name the variable that holds one")
    return migrations
