"""What a job reads and writes: topics and tables, by its arguments.

They are named by OpenLineage's rules, so that its graphs join ours with those of other tools. See
https://openlineage.io/docs/spec/naming. A namespace is where something is, such as a broker or a bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from spark_apps.generations.live import live_store
from spark_apps.registry import APPS, apps_of, gated_tables, stores
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec
from state.locations import Location

_OF_OBJECTS = {"s3": "s3", "s3a": "s3", "gs": "gs"}
"""Stores of objects, whose names are keys without a leading slash, and the scheme that OpenLineage gives them."""


class Dataset(NamedTuple):
    """A topic or a table."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Lineage:
    """What is read and written."""

    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()


def lineage_of(arguments: Sequence[str], settings: AppSettings) -> Lineage:
    """What a job of these arguments reads and writes; nothing for one that isn't about apps, stores or tables."""
    command, subcommand, *names = (*arguments, "", "")
    if command == "verify":
        subcommand, names = "", [subcommand]
    of_one = _KNOWN.get((command, subcommand))
    if of_one is None:
        return Lineage()
    found = [of_one(name, settings) for name in (names if command == "snapshot" else names[:1])]
    return Lineage(
        tuple(dict.fromkeys(each for one in found for each in one.inputs)),
        tuple(dict.fromkeys(each for one in found for each in one.outputs)),
    )


def _app(program: str, settings: AppSettings) -> Lineage:
    specs = [APPS[app] for app in apps_of(program) if app in APPS]
    inputs = [topic for spec in specs for topic in spec.sources(settings)]
    outputs = [topic for spec in specs for topic in (*spec.sinks(settings), *spec.dead_letter_topics)]
    outputs += [live_store(store.name, settings)[0].changelog_topic for spec in specs for store in spec.stores]
    tables = [table.staged_name for spec in specs for table in spec.gated_tables]
    return Lineage(_topics(inputs, settings), (*_topics(outputs, settings), *_tables(tables, settings)))


def _changed_app(app: str, settings: AppSettings) -> Lineage:
    """A new generation is made of the live changelogs, and the app goes on with it."""
    running = _app(app, settings)
    spec: AppSpec | None = APPS.get(app)
    changelogs = [live_store(store.name, settings)[0].changelog_topic for store in spec.stores] if spec else []
    return Lineage((*running.inputs, *_topics(changelogs, settings)), running.outputs)


def _publish(table: str, settings: AppSettings) -> Lineage:
    """A table is published from what is staged; a store's snapshots are checked where they are."""
    if table not in gated_tables():
        return Lineage(_snapshots(table, settings))
    return Lineage(_tables([gated_tables()[table].staged_name], settings), _tables([table], settings))


_KNOWN: Mapping[tuple[str, str], Callable[[str, AppSettings], Lineage]] = {
    **{("app", action): _app for action in ("ensure", "start", "restart", "scale", "upgrade")},
    **{("generation", step): _changed_app for step in ("seed", "handover", "rollback")},
    **{
        ("cleanup", step): lambda store, s: Lineage(_changelog(store, s), _changelog(store, s))
        for step in ("run", "undo")
    },
    ("snapshot", "create"): lambda store, s: Lineage(_changelog(store, s), _snapshots(store, s)),
    **{
        ("snapshot", step): lambda store, s: Lineage(_snapshots(store, s), _snapshots(store, s))
        for step in ("restore", "optimize")
    },
    ("check", "table"): _publish,
    ("quarantine", "release"): _publish,
    ("verify", ""): lambda store, s: Lineage((*_changelog(store, s), *_snapshots(store, s))),
}
"""The commands that are about an app, a store or a table. `snapshot` takes several stores."""


def _changelog(store: str, settings: AppSettings) -> tuple[Dataset, ...]:
    if store not in stores():
        return ()
    return _topics([live_store(store, settings)[0].changelog_topic], settings)


def _snapshots(store: str, settings: AppSettings) -> tuple[Dataset, ...]:
    return _tables([stores()[store].table_name], settings) if store in stores() else ()


def _topics(names: Sequence[str], settings: AppSettings) -> tuple[Dataset, ...]:
    return tuple(topic_dataset(settings.kafka_bootstrap, name) for name in dict.fromkeys(names))


def _tables(names: Sequence[str], settings: AppSettings) -> tuple[Dataset, ...]:
    return tuple(table_dataset(settings.delta_table(name)) for name in names)


def topic_dataset(bootstrap: str, topic: str) -> Dataset:
    """A topic. OpenLineage names a cluster after the first of its brokers."""
    return Dataset(f"kafka://{bootstrap.partition(',')[0].strip()}", topic)


def table_dataset(place: Location) -> Dataset:
    """A Delta table at a path."""
    if isinstance(place, Path):
        return Dataset("file", str(place))
    parts = urlsplit(place.uri)
    if parts.scheme in _OF_OBJECTS:
        return Dataset(f"{_OF_OBJECTS[parts.scheme]}://{parts.netloc}", parts.path.strip("/"))
    return Dataset(f"{parts.scheme}://{parts.netloc}", parts.path)
