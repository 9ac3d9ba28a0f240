"""The topics of an app don't meet: each internal one has one use, and nothing that an app writes comes back to it."""

from __future__ import annotations

from collections.abc import Iterable

from storekeeper.errors import ConfigurationError
from storekeeper.names import changelog_topic
from storekeeper.topology.node import GraphNode
from storekeeper.topology.operators.repartition import RepartitionSink, RepartitionSource
from storekeeper.topology.operators.source import GlobalSource, Source
from storekeeper.topology.operators.stateless import Sink
from storekeeper.topology.operators.stream_table_join import StreamTableJoin
from storekeeper.topology.plan import Topology


def check_topics(topology: Topology, internal: Iterable[tuple[str, str]]) -> None:
    """Refuses a topology whose topics meet.

    Raises:
        ConfigurationError: an internal topic has two uses, or the app reads or writes it like any other; or it writes
            a topic whose records lead there again.
    """
    repartitions = [(sink.topic, f"the topic of {sink.source.name}") for sink in topology.repartitions]
    uses = _internal_uses([*internal, *repartitions])
    for node in topology.graph.nodes:
        if isinstance(node, RepartitionSink | RepartitionSource) or not isinstance(node, Source | Sink):
            continue
        if node.topic in uses:
            does = "reads" if isinstance(node, Source) else "writes"
            msg = f"{node.name} {does} {node.topic!r}, which is {uses[node.topic]}: use another topic"
            raise ConfigurationError(msg)
    _check_cycles(topology)


def changelogs_of(topology: Topology) -> list[tuple[str, str]]:
    """The changelogs of a topology's stores, in the first generation, each with what it is."""
    app, nodes = topology.graph.app, [node for node in topology.graph.nodes if not isinstance(node, GlobalSource)]
    stores = [spec for node in nodes for spec in node.stores if spec.options.logging]
    topics = [spec.options.changelog or changelog_topic(app, spec.name) for spec in stores]
    return [(topic, f"the changelog of store {spec.name}") for topic, spec in zip(topics, stores, strict=True)]


def _internal_uses(internal: Iterable[tuple[str, str]]) -> dict[str, str]:
    uses: dict[str, str] = {}
    for topic, use in internal:
        if topic in uses:
            raise ConfigurationError(f"topic {topic!r} is {uses[topic]}, and {use}: give each a topic of its own")
        uses[topic] = use
    return uses


def _check_cycles(topology: Topology) -> None:
    """Refuses a topic whose records lead to records of the same topic: the app would go round for ever."""
    written: dict[str, list[GraphNode]] = {}
    for node in topology.graph.nodes:
        if isinstance(node, Sink):
            written.setdefault(node.topic, []).append(node)
    readers = {node.topic: node for node in topology.graph.nodes if isinstance(node, Source)}
    for topic in written.keys() & readers.keys():
        reached: set[str] = set()
        waiting = [topic]
        while waiting:
            for app in _leads_to(readers[waiting.pop()]) - reached:
                reached.add(app)
                if app in readers:
                    waiting.append(app)
        if topic in reached:
            raise ConfigurationError(
                f"{written[topic][0].name} writes topic {topic!r}, and what {readers[topic].name} reads there leads to "
                "it again: the app would go round for ever. Write another topic"
            )


def _leads_to(source: GraphNode) -> set[str]:
    """The topics that the records of a source may cause records in."""
    seen, waiting = {source}, [source]
    topics = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Sink):
            topics.add(node.topic)
        for child, number in node.children:
            # A stream looks rows of a table up: a new row makes no record.
            looks_up = isinstance(child, StreamTableJoin) and number == 1
            if child not in seen and not looks_up:
                seen.add(child)
                waiting.append(child)
    return topics
