"""What the platform must be allowed in a Kafka with ACLs: no more than its work needs. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import changelog_topics, described, global_topics
from storekeeper.generations.catalog import migrations_of
from storekeeper.generations.migration import function_named
from storekeeper.names import aliases_topic, members_topic
from storekeeper.topology.plan import Topology

Resource = Literal["topic", "group", "transactional-id"]

_WRITE = ("Write", "DescribeConfigs")
_OWN = ("Read", "Write", "Delete", "DescribeConfigs")
_MAKE = ("Create", "Alter")
"""For topics that are made here, or get more partitions."""


@dataclass(frozen=True, slots=True)
class Right:
    """What may be done with a resource. `operations` are as ACLs name them; `Read` and `Write` imply `Describe`. With
    `prefixed`, `name` is the beginning of several names.
    """

    resource: Resource
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False


def rights_of(apps: Iterable[AppSpec], settings: AppSettings) -> tuple[Right, ...]:
    """The rights that apps, their jobs and the query nodes need, each resource once."""
    operations: dict[tuple[Resource, str, bool], dict[str, None]] = {}
    for right in (*_of_nodes(settings.cluster), *(right for app in apps for right in _of_app(app, settings))):
        place = (right.resource, right.name, right.prefixed)
        allowed = (one for one in right.operations if settings.make_topics or one not in _MAKE)
        operations.setdefault(place, {}).update(dict.fromkeys(allowed))
    return tuple(
        Right(resource, name, tuple(verbs), prefixed) for (resource, name, prefixed), verbs in operations.items()
    )


def _of_nodes(cluster: str) -> Iterator[Right]:
    for topic in (members_topic(cluster), aliases_topic(cluster)):
        yield Right("topic", topic, ("Read", "Write", "Create"))
    yield Right("group", f"{cluster}-", ("Read",), prefixed=True)


def _of_app(app: AppSpec, settings: AppSettings) -> Iterator[Right]:
    for topic in app.sources(settings):
        yield Right("topic", topic, ("Read", "Create"))
    for topic in app.sinks(settings):
        yield Right("topic", topic, (*_WRITE, "Create"))
    yield from _own_beginning_with(f"{app.name}-")
    for topology in _topologies(app, settings):
        yield from _of_topology(app.name, topology)


def _of_topology(app: str, topology: Topology) -> Iterator[Right]:
    """The rights for topics that don't begin with the app's name. A migration may write other outputs, for example."""
    for sink in (sink for sub in topology.sub_topologies for sink in sub.sinks):
        if sink.topic not in topology.repartition_topics:
            yield Right("topic", sink.topic, (*_WRITE, "Create"))
    for topic in global_topics(topology).values():
        # How long it keeps tombstones decides whether an old copy of the table can be used.
        yield Right("topic", topic, ("DescribeConfigs",))
    for changelog in changelog_topics(app, topology).values():
        if not changelog.startswith(f"{app}-"):
            yield from _own_beginning_with(changelog)  # later generations and clean-ups have more behind it
    for topic in sorted(topology.repartition_topics - topology.shuffled_topics):
        if not topic.startswith(f"{app}-"):
            yield Right("topic", topic, (*_OWN, *_MAKE))


def _own_beginning_with(beginning: str) -> Iterator[Right]:
    yield Right("topic", beginning, (*_OWN, *_MAKE), prefixed=True)
    yield Right("transactional-id", beginning, ("Write",), prefixed=True)


def _topologies(app: AppSpec, settings: AppSettings) -> Iterator[Topology]:
    """The topology of an app, and those that its migrations lead to."""
    if app.describe is not None:
        steps = [migration.describe for store in app.stores for migration in migrations_of(store.name)]
        for describe in (app.describe, *(function_named(step) for step in steps if step is not None)):
            yield described(app.name, describe, settings)


def acl_commands(rights: Iterable[Right], user: str) -> Iterator[str]:
    """The commands of Kafka's own tool that give a user (`User:name`) these rights."""
    for right in rights:
        operations = " ".join(f"--operation {operation}" for operation in right.operations)
        pattern = " --resource-pattern-type prefixed" if right.prefixed else ""
        yield (
            f"kafka-acls --bootstrap-server $BOOTSTRAP --command-config $ADMIN --add --allow-principal "
            f"{shlex.quote(user)} {operations} --{right.resource} {shlex.quote(right.name)}{pattern}"
        )
