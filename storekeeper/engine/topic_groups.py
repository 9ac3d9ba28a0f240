"""Which inputs of an app are cut together when a batch is planned."""

from __future__ import annotations

from storekeeper.engine.runtime.batch_ends import TopicGroup
from storekeeper.topology.layout import Layout
from storekeeper.topology.operators.repartition import RepartitionSource
from storekeeper.topology.record_order import reading_order
from storekeeper.topology.sub_topology import SubTopology


def topic_groups(layout: Layout) -> list[TopicGroup]:
    """The inputs of an app, in one group those whose records meet in a task, at once or behind repartitions."""
    running = layout.running
    everything = SubTopology(0, tuple(node for sub in running for node in sub.nodes))
    inputs = [node.topic for node in reading_order(everything) if not isinstance(node, RepartitionSource)]
    groups = {topic: frozenset({topic}) for topic in inputs}
    meeting = set[str]()
    for sub in running:
        together = layout.inputs(sub)
        if len(together) > 1 or any(isinstance(source, RepartitionSource) for source in sub.sources):
            joined = frozenset[str]().union(*(groups[topic] for topic in together))
            groups |= dict.fromkeys(joined, joined)
            meeting |= joined
    return [
        TopicGroup(tuple(topic for topic in inputs if topic in group), not group.isdisjoint(meeting))
        for group in dict.fromkeys(groups.values())
    ]
