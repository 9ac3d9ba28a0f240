"""Whatever an app makes, reads or writes in Kafka, the rights that an administrator is asked for allow it."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from storekeeper import names
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import Describe, changelog_topics, described, topology_app
from storekeeper.engine.own_topics import own_topics_of
from storekeeper.engine.work import AppWork
from storekeeper.generations import catalog
from storekeeper.generations.migration import StoreMigration
from storekeeper.names import aliases_topic, cleanup_transaction, members_topic, node_group
from storekeeper.ops.kafka.rights import Right, rights_of
from storekeeper.topology import Store, StreamsBuilder, tumbling
from storekeeper.topology.layout import Layout
from storekeeper.topology.node import GraphNode
from storekeeper.topology.operators.repartition import RepartitionSink, RepartitionSource
from storekeeper.topology.operators.source import GlobalSource, Source
from storekeeper.topology.operators.stateless import Sink
from storekeeper.topology.plan import Topology
from tests.engine import topologies
from tests.integration import grouped_app

Need = tuple[str, str, str]
OWN = ("Read", "Write", "Delete", "DescribeConfigs", "Create", "Alter")
NAMED_TOPICS = {"changelog_topic", "markers_topic", "dead_letter_topic", "members_topic", "aliases_topic"}
OTHER_NAMES = {"cleanup_transaction", "node_group"}


def initial(key: str, _: int) -> str:
    """Another key."""
    return key[:1]


def through_named_topic(streams: StreamsBuilder, _: AppSettings) -> None:
    """A repartition topic with a name of its own, and one that is named by its operator."""
    moved = streams.stream("purchases", int).select_key(initial).repartition(topic="moved-by-name")
    counts = moved.group_by_key().count(store="counts")
    counts.to_stream().select_key(initial).repartition(named="again").to("counted")


def with_named_changelogs(streams: StreamsBuilder, _: AppSettings) -> None:
    """Changelogs with names of their own: of a store that nodes serve, and of one that they don't."""
    sales = streams.stream("purchases", int).group_by_key()
    sales.reduce(operator.add, store=Store("totals", changelog="kept"))
    minutes = sales.windowed_by(tumbling(timedelta(minutes=1))).count(store="minutes")
    minutes.filter(lambda _, count: count > 1, store=Store("busy", int, changelog="busy-by-name"))


def migrated(streams: StreamsBuilder, settings: AppSettings) -> None:
    """The topology after a migration, with one output more and another changelog."""
    topologies.counted(streams, settings)
    totals = streams.stream("counted-events", int).group_by_key().count(store=Store("more", changelog="kept-later"))
    totals.to_stream().to("counted-later")


DESCRIBED: dict[str, Describe] = {
    **{name: one for name, one in vars(topologies).items() if inspect.isfunction(one) and not name.startswith("_")
       and [*inspect.signature(one).parameters][:1] == ["streams"]},
    "grouped": grouped_app.topology,
    "through_named_topic": through_named_topic,
    "with_named_changelogs": with_named_changelogs,
}  # fmt: skip


def needs_of(app: AppSpec, settings: AppSettings, describe: Describe) -> Iterator[Need]:
    """What the app's tasks and the jobs on its stores do, from the topology."""
    topology = described(app.name, describe, settings)
    for node in topology.graph.nodes:
        if hasattr(node, "topic"):
            yield from (("topic", cast("Any", node).topic, verb) for verb in verbs_of(node, topology))
    layout = Layout(topology.plan(dict.fromkeys(app.sources(settings), 2)))
    for own in own_topics_of(app.name, layout, settings.generation):
        yield from (("topic", own.name, verb) for verb in OWN)
    yield from (("topic", topic, verb) for topic in app.dead_letter_topics for verb in OWN)
    for sub in layout.running:
        work = cast("AppWork", SimpleNamespace(app=app.name, settings=settings, slots={}, query_id=""))
        yield "transactional-id", AppWork.slot(work, sub, 1).name, "Write"
    for changelog in changelog_topics(app.name, topology, settings.generation).values():
        yield "transactional-id", cleanup_transaction(changelog), "Write"


def verbs_of(node: GraphNode, topology: Topology) -> tuple[str, ...]:
    if isinstance(node, RepartitionSink | RepartitionSource):
        return () if cast("Any", node).topic in topology.shuffled_topics else OWN
    if isinstance(node, GlobalSource):
        return ("Read", "Create", "DescribeConfigs")
    if isinstance(node, Source):
        return ("Read", "Create")
    if isinstance(node, Sink):
        return ("Write", "Create", "DescribeConfigs")
    pytest.fail(f"{type(node).__name__} has a topic: say which rights it takes")


def refused(needs: Iterator[Need], rights: tuple[Right, ...]) -> list[Need]:
    def allows(right: Right, need: Need) -> bool:
        resource, name, verb = need
        is_it = name.startswith(right.name) if right.prefixed else name == right.name
        return right.resource == resource and is_it and verb in right.operations

    return sorted({need for need in needs if not any(allows(right, need) for right in rights)})


@pytest.mark.parametrize("generation", [1, 3])
@pytest.mark.parametrize("name", DESCRIBED)
def test_an_app_may_do_all_that_it_does(name: str, generation: int) -> None:
    settings = AppSettings(generation=generation)
    app = topology_app(f"till.{name}", DESCRIBED[name], title="Something")
    assert refused(needs_of(app, settings, DESCRIBED[name]), rights_of([app], settings)) == []


def test_a_generation_may_do_what_its_migrations_add(monkeypatch: pytest.MonkeyPatch) -> None:
    step = StoreMigration("step", "totals", "More.", 2, "unused:unused", f"{__name__}:migrated")
    monkeypatch.setattr(catalog, "registered_migrations", lambda: {"step": step})
    settings, app = AppSettings(generation=2), topology_app("counted", topologies.counted, title="Counted")
    assert refused(needs_of(app, settings, migrated), rights_of([app], AppSettings())) == []


def test_nodes_and_readers_may_do_what_they_do() -> None:
    settings = AppSettings(cluster="till.query")
    needs = [
        *(
            ("topic", topic("till.query"), verb)
            for topic in (members_topic, aliases_topic)
            for verb in ("Read", "Write")
        ),
        ("group", node_group("till.query", "a"), "Read"),
    ]
    assert refused(iter(needs), rights_of([], settings)) == []


def test_each_kind_of_name_is_looked_at_here() -> None:
    functions = {name for name, one in vars(names).items() if inspect.isfunction(one)}
    kinds = {name for name in functions if name.endswith(("_topic", "_group", "_transaction"))}
    assert kinds == NAMED_TOPICS | OTHER_NAMES, "a new kind of name needs rights, and a line in this file"
    of_rows = {"checked_name", "variant_name", "store_of", "checked_variant"}
    assert functions - kinds == of_rows, "a name in Kafka ends with what it names"


def test_nothing_is_asked_for_that_no_topology_has() -> None:
    app = topology_app("plain", topologies.counted, title="Counted")
    others = {right.name for right in rights_of([app], AppSettings()) if right.resource == "topic"}
    assert others == {"counted-events", "counted-out", "plain-", "storekeeper-members", "storekeeper-aliases"}
