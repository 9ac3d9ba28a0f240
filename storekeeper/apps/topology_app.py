"""An app that is a topology: its spec follows from the description. Free of Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from storekeeper.apps.checked_table import CheckedTable
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec, Resources, StoreSpec, misfit
from storekeeper.apps.value_fields import fields_of
from storekeeper.names import changelog_topic, dead_letter_topic, markers_topic
from storekeeper.schemas.bound import BoundSerde
from storekeeper.schemas.registry import SchemaRegistry, registry_of
from storekeeper.serdes.value_field import ValueField
from storekeeper.stores.store_definitions import ServedKind
from storekeeper.topology import StoreKind, StreamsBuilder
from storekeeper.topology.describe import transport
from storekeeper.topology.failures import OnError
from storekeeper.topology.plan import Topology
from storekeeper.topology.schemas import bind_schemas
from storekeeper.topology.slots import NO_SLOTS, Slots, assigned, slot_of
from storekeeper.topology.topic_checks import check_topics
from storekeeper.topology.topology_store import TopologyStore
from storekeeper.topology.windows import WindowedSerde

Describe = Callable[[StreamsBuilder, AppSettings], None]
"""Describes an app's topology. A function of a module, so that workers find it by its name."""

_SERVED = {
    StoreKind.KEY_VALUE: ServedKind.KEY_VALUE,
    StoreKind.TTL: ServedKind.KEY_VALUE,
    StoreKind.WINDOW: ServedKind.WINDOW,
    StoreKind.SESSION: ServedKind.SESSION,
    StoreKind.VERSIONED: ServedKind.VERSIONED,
}


def topology_app(
    name: str,
    describe: Describe,
    *,
    title: str,
    dead_letters: bool = True,
    resources: Resources | None = None,
    migrations: str | None = None,
    tables: tuple[CheckedTable, ...] = (),
    on_error: OnError | str = OnError.DEAD_LETTER,
) -> AppSpec:
    """The spec of an app that is a topology.

    Args:
        name: the app's name.
        describe: describes the topology.
        title: what it does, in a few words.
        dead_letters: whether it writes records that it can't process to `<name>-dlq`. If not, another app does so for
            all of its sources, and this one only counts them.
        resources: where it differs from the settings' defaults.
        migrations: `<module>:<variable>` of the migrations that its stores can undergo.
        tables: what the rows of its stores' snapshots must be, beyond what their types say.
        on_error: what becomes of a record that a function of the topology can't process: "dead_letter" leaves it out,
            whole, and "fail" stops the app. For single operators see `StreamsBuilder.on_error`. A record that doesn't
            decode, or that `check=` refuses by a `SerializationError`, is a dead letter in any case.

    Raises:
        ConfigurationError: the topology can't be built, or a table doesn't fit its store.
    """
    topics = _Topics(name, describe)
    topology = described(name, describe, _default_settings())
    return AppSpec(
        name=name,
        title=title,
        describe=describe,
        sources=topics.sources,
        sinks=topics.sinks,
        dead_letters=dead_letters,
        stores=served_stores(name, topology),
        resources=resources or Resources(),
        migrations=migrations,
        tables=tables,
        why_no_generations=_why_no_generations(topology),
        on_error=OnError(on_error),
    )


@lru_cache(maxsize=64)
def described(app: str, describe: Describe, settings: AppSettings) -> Topology:
    """The topology of an app, in the generation of the settings and with their schema registry.

    Raises:
        ConfigurationError: it can't be built.
    """
    return described_with(registry_of(settings.kafka_properties), app, describe, settings)


def described_with(registry: SchemaRegistry, app: str, describe: Describe, settings: AppSettings) -> Topology:
    """The same with another schema registry."""
    streams = StreamsBuilder(internal_name(app, settings.generation))
    describe(streams, settings)
    topology = streams.build()
    check_topics(topology, _internal_topics(app, topology, settings.generation))
    bind_schemas(topology, registry, changelog_topics(app, topology, settings.generation))
    return topology


def slots_after(spec: AppSpec, settings: AppSettings, before: Slots = NO_SLOTS) -> dict[str, list[str]]:
    """The slots of an app's tasks at its next start, given those of its last one. An app without topology has none.

    Raises:
        ConfigurationError: its tasks can't go on with this topology.
    """
    if spec.describe is None:
        return {}
    return assigned(described(spec.name, spec.describe, settings), before)


def kept_inside(topology: Topology) -> tuple[dict[str, str], dict[str, str]]:
    """An app's internals by name: the kinds of stores that no node serves, and the transport of repartitions."""
    stores = {spec.name: spec.kind.value for spec in logged_stores(topology) if not is_served(spec)}
    return stores, {sink.topic: transport(sink) for sink in topology.repartitions}


def with_topology(spec: AppSpec, describe: Describe) -> AppSpec:
    """An app with another topology, which reads the same topics.

    What is declared about stores whose rows are others there is left out.

    Raises:
        ConfigurationError: the topology can't be built.
    """
    stores = served_stores(spec.name, described(spec.name, describe, _default_settings()))
    by_name = {store.name: store for store in stores}
    declared = {store.name for store in spec.stores}
    tables = tuple(
        table
        for table in spec.tables
        if table.name not in declared or (table.name in by_name and misfit(by_name[table.name], table) is None)
    )
    return replace(spec, describe=describe, sinks=_Topics(spec.name, describe).sinks, stores=stores, tables=tables)


def internal_name(app: str, generation: int) -> str:
    """The prefix of an app's repartition topics: each generation has its own."""
    return app if generation == 1 else f"{app}-gen-{generation}"


def read_topics(spec: AppSpec, settings: AppSettings) -> tuple[str, ...]:
    """The topics that Spark reads for an app, and that its progress is measured in.

    They are its sources without those of global tables, and the repartition topics that no shuffle replaces.
    """
    if spec.describe is None:
        return spec.sources(settings)
    topology = described(spec.name, spec.describe, settings)
    running = (source.topic for sub in topology.sub_topologies if not sub.is_global for source in sub.sources)
    return tuple(dict.fromkeys(topic for topic in running if topic not in topology.shuffled_topics))


def own_topics(spec: AppSpec, settings: AppSettings, slots: Slots = NO_SLOTS) -> tuple[str, ...]:
    """The topics that hold an app's state: changelogs, markers, and repartition topics that no shuffle replaces.

    Args:
        spec: the app.
        settings: its settings.
        slots: of its tasks; empty before its first start.
    """
    if spec.describe is None:
        return ()
    topology = described(spec.name, spec.describe, settings)
    repartitions = sorted(topology.repartition_topics - topology.shuffled_topics)
    changelogs = changelog_topics(spec.name, topology, settings.generation).values()
    return (*changelogs, *_markers(spec.name, topology, settings.generation, slots), *repartitions)


def markers_topics(spec: AppSpec, settings: AppSettings, slots: Slots) -> list[str]:
    """The topics of the markers of an app's tasks. Those of a table sink write one with their first dead letter."""
    if spec.describe is None:
        return [] if spec.table_sink is None else [markers_topic(spec.name, settings.generation, spec.table_sink.topic)]
    return _markers(spec.name, described(spec.name, spec.describe, settings), settings.generation, slots)


def _markers(app: str, topology: Topology, generation: int, slots: Slots = NO_SLOTS) -> list[str]:
    running = [sub for sub in topology.sub_topologies if not sub.is_global]
    return [markers_topic(app, generation, slot_of(sub, slots)) for sub in running]


def _internal_topics(app: str, topology: Topology, generation: int) -> list[tuple[str, str]]:
    """The topics that belong to the app alone, without repartition topics, each with what it is."""
    changelogs = changelog_topics(app, topology, generation)
    return [
        *((topic, f"the changelog of store {store}") for store, topic in changelogs.items()),
        *((topic, "the topic of a task's markers") for topic in _markers(app, topology, generation)),
        (dead_letter_topic(app), "the topic of the app's dead letters"),
    ]


def served_stores(app: str, topology: Topology) -> tuple[StoreSpec, ...]:
    """The stores of a topology that nodes serve and that have tables: those with a changelog, except internal ones."""
    return tuple(_served(app, spec) for spec in logged_stores(topology) if is_served(spec))


def logged_stores(topology: Topology) -> list[TopologyStore]:
    """The stores of a topology that have a changelog."""
    return [spec for sub in topology.sub_topologies if not sub.is_global for spec in sub.stores if spec.options.logging]


def changelog_topics(app: str, topology: Topology, generation: int = 1) -> dict[str, str]:
    """The changelog of each store that has one, in a generation of the app, by store."""
    topics = {spec.name: spec.options.changelog or changelog_topic(app, spec.name) for spec in logged_stores(topology)}
    return {store: generation_topic(topic, generation) for store, topic in topics.items()}


def global_topics(topology: Topology) -> dict[str, str]:
    """The topic that each global table is read from, by its store."""
    return {sub.stores[0].name: sub.sources[0].topic for sub in topology.sub_topologies if sub.is_global}


def generation_topic(first: str, generation: int) -> str:
    """A changelog in a generation, whose name in the first one is `first`."""
    return first if generation == 1 else f"{first}-g{generation}"


def first_topic(topic: str, generation: int) -> str:
    """The name in the first generation of a changelog that a generation has as `topic`."""
    return topic if generation == 1 else topic.removesuffix(f"-g{generation}")


def is_served(spec: TopologyStore) -> bool:
    """Whether nodes serve a store.

    Not the rows that a filter, map or join of a windowed table keeps: they are where their key is without the window,
    and nodes look for a row where all of its key's bytes belong.
    """
    return spec.options.logging and not spec.internal and not isinstance(spec.key_serde, WindowedSerde)


def _served(app: str, spec: TopologyStore) -> StoreSpec:
    options = spec.options
    kind = _SERVED[spec.kind]
    if options.ranked_by is not None:
        kind = ServedKind.RANKED
    elif options.everywhere:
        kind = ServedKind.GLOBAL
    values = spec.value_serde
    return StoreSpec(
        name=spec.name,
        app=app,
        value_fields=_fields_of(spec),
        kind=kind,
        score_field=options.ranked_by,
        topic=options.changelog,
        # Without one version, an older one would answer for its time.
        bounded=options.bounded
        or options.max_rows is not None
        or spec.retention_ms > 0
        or spec.kind is StoreKind.VERSIONED,
        by_schema=isinstance(values, BoundSerde),
    )


def _fields_of(spec: TopologyStore) -> tuple[ValueField, ...]:
    """The fields of a store's values. A version may be a deletion, which has none of them."""
    fields = fields_of(spec.value_serde)
    is_versioned = spec.kind is StoreKind.VERSIONED
    return tuple(replace(item, nullable=True, only_grows=False) for item in fields) if is_versioned else fields


def _why_no_generations(topology: Topology) -> str | None:
    if not logged_stores(topology):
        return "it keeps no store"
    named = [sink.topic for sink in topology.repartitions if sink.forced_topic]
    return f"it repartitions through topic {named[0]}, which two generations would share" if named else None


@dataclass(frozen=True)
class _Topics:
    """The topics of a topology, as settings name them."""

    app: str
    describe: Describe

    def sources(self, settings: AppSettings) -> tuple[str, ...]:
        """The topics that it reads."""
        topology = described(self.app, self.describe, settings)
        return tuple(dict.fromkeys(source.topic for sub in topology.sub_topologies for source in sub.sources
                                   if source.topic not in topology.repartition_topics))  # fmt: skip

    def sinks(self, settings: AppSettings) -> tuple[str, ...]:
        """The topics that it writes, without those of its own."""
        topology = described(self.app, self.describe, settings)
        return tuple(dict.fromkeys(sink.topic for sub in topology.sub_topologies for sink in sub.sinks
                                   if sink.topic not in topology.repartition_topics))  # fmt: skip


def _default_settings() -> AppSettings:
    """The settings to describe a spec with. Some import specs for their names alone, so nothing is read here.

    The commands that use the environment's settings check them.
    """
    return AppSettings.model_construct(run_dir=Path())
