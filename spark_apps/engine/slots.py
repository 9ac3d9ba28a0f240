"""Where a generation notes what its tasks have committed."""

from __future__ import annotations

from state.topology.layout import Layout
from state.topology.slots import NO_SLOTS, Slots, slot_of


def slots_of(layout: Layout, slots: Slots = NO_SLOTS) -> dict[str, int]:
    """The number of partitions of each sub-topology, by the name of its slot."""
    return {slot_of(sub, slots): layout.plan.tasks(sub) for sub in layout.running}


def markers_topic(app: str, generation: int, slot: str) -> str:
    """The topic of the markers of one sub-topology of one generation of an app."""
    return f"{app}-gen-{generation}-{slot}-markers"
