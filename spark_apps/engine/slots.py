"""The names of a generation's tasks, in markers and transactional ids."""

from __future__ import annotations

from state.topology.layout import Layout
from state.topology.plan import SubTopology


def slots_of(layout: Layout) -> dict[str, int]:
    """The number of partitions of each sub-topology, by its slot name."""
    return {slot_name(sub): layout.plan.tasks(sub) for sub in layout.running}


def slot_name(sub: SubTopology) -> str:
    """A sub-topology's name in markers and transactional ids: of the topics that it reads, the alphabetically first.

    Only one sub-topology reads a topic, so operators that are added elsewhere change no name.
    """
    return min(source.topic for source in sub.sources)


def markers_topic(app: str, generation: int, slot: str) -> str:
    """The topic of the markers of one sub-topology of one generation of an app."""
    return f"{app}-gen-{generation}-{slot}-markers"
