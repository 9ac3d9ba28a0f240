"""The topics that hold the state of a topology, and how they are made. Free of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from storekeeper.apps.topology_app import changelog_topics
from storekeeper.engine.markers import MARKER_TOPIC_CONFIG
from storekeeper.names import markers_topic
from storekeeper.topology.layout import Layout
from storekeeper.topology.slots import NO_SLOTS, Slots, partitions_by_slot

CHANGELOG_CONFIG = {
    "cleanup.policy": "compact",
    # A history gets each record: those that newer ones supersede must still be there after three missed runs. It is
    # by the time of records, so it keeps nothing in a backfill.
    "min.compaction.lag.ms": str(3 * 60 * 60 * 1000),
    # How long a clean-up can be undone, and how long a replica can be offline without missing deletions.
    "delete.retention.ms": str(7 * 24 * 60 * 60 * 1000),
}
REPARTITION_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1"}
"""As in Kafka Streams, records are deleted once they are processed, not by age."""


@dataclass(frozen=True, slots=True)
class OwnTopic:
    """A topic that only an app itself writes to."""

    name: str
    partitions: int
    config: Mapping[str, str]


def own_topics_of(app: str, layout: Layout, generation: int, slots: Slots = NO_SLOTS) -> Iterator[OwnTopic]:
    """The topics of a generation of an app: markers, repartition topics that no shuffle replaces, changelogs."""
    for slot, count in partitions_by_slot(layout, slots).items():
        yield OwnTopic(markers_topic(app, generation, slot), count, MARKER_TOPIC_CONFIG)
    for topic, count in layout.topics_to_create.items():
        yield OwnTopic(topic, count, REPARTITION_CONFIG)
    names = changelog_topics(app, layout.topology, generation)
    for sub in layout.topology.sub_topologies:
        for spec in sub.stores:
            if spec.name in names:
                yield OwnTopic(names[spec.name], layout.plan.tasks(sub), CHANGELOG_CONFIG)
