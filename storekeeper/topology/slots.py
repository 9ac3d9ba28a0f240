"""The names of a generation's tasks. They stay, whatever is added to the topology.

A *slot* is a sub-topology's name in markers, in transactional ids and in the folder of its local stores. It is chosen
at the first start and kept in the claim on the checkpoint, with what its sub-topology reads and stores. A later
start finds it by any of these. A name that followed from the topology would change with it, and the tasks would forget
which batch they have committed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain, count

from storekeeper.errors import ConfigurationError
from storekeeper.topology.layout import Layout
from storekeeper.topology.plan import Topology
from storekeeper.topology.sub_topology import SubTopology

Slots = Mapping[str, Sequence[str]]
"""By the name of each slot, the topics and stores of its sub-topology."""

NO_SLOTS: Slots = {}

_WAY_ON = "Take the change back, or make a new generation, which begins with tasks of its own"


def slot_of(sub: SubTopology, slots: Slots) -> str:
    """The slot of a sub-topology. `slots` is empty before the first start."""
    if not slots:
        return _first_topic(sub)
    mine = _members(sub)
    return next(name for name, members in slots.items() if not mine.isdisjoint(members))


def topic_member(topic: str) -> str:
    """How a slot names a topic that its sub-topology reads."""
    return f"topic {topic}"


def partitions_by_slot(layout: Layout, slots: Slots = NO_SLOTS) -> dict[str, int]:
    """The number of partitions of each sub-topology that has tasks, by the name of its slot."""
    return {slot_of(sub, slots): layout.plan.tasks(sub) for sub in layout.running}


def assigned(topology: Topology, before: Slots) -> dict[str, list[str]]:
    """The slots of a topology that goes on with the tasks of another one.

    A sub-topology without a predecessor is named after the alphabetically first topic that it reads. `before` are the
    slots of the topology that ran last; empty at the first start.

    Raises:
        ConfigurationError: a sub-topology would have several predecessors, or share one, or a slot has no successor.
    """
    subs = [sub for sub in topology.sub_topologies if not sub.is_global]
    return continued({_first_topic(sub): sorted(_members(sub)) for sub in subs}, before)


def continued(wanted: Slots, before: Slots) -> dict[str, list[str]]:
    """As `assigned`, of sub-topologies given by what they read and store, each under the name of a new slot."""
    slots: dict[str, list[str]] = {}
    new: dict[str, list[str]] = {}
    for fresh, members in wanted.items():
        name = _predecessor(members, before)
        if name is None:
            new[fresh] = sorted(members)
        elif name in slots:
            what = f"{_shown(members)} are apart from {_shown(slots[name])} now, and were in the same tasks, {name}"
            raise ConfigurationError(f"{what}. {_WAY_ON}")
        else:
            slots[name] = sorted(members)
    for gone in sorted(before.keys() - slots.keys()):
        what = f"nothing has {_shown(before[gone])} any more: what the tasks {gone} have committed would be forgotten"
        raise ConfigurationError(f"{what}. {_WAY_ON}")
    for fresh, members in new.items():
        numbered = (f"{fresh}-{number}" for number in count(2))
        slots[next(name for name in chain([fresh], numbered) if name not in slots)] = members
    return slots


def _predecessor(members: Sequence[str], before: Slots) -> str | None:
    names = sorted(name for name, kept in before.items() if not set(members).isdisjoint(kept))
    if len(names) > 1:
        what = f"{_shown(members)} meet in the same tasks now, and were in those of {' and of '.join(names)}"
        raise ConfigurationError(f"{what}, which have committed apart. {_WAY_ON}")
    return names[0] if names else None


def _first_topic(sub: SubTopology) -> str:
    return min(source.topic for source in sub.sources)


def _members(sub: SubTopology) -> set[str]:
    topics = {topic_member(source.topic) for source in sub.sources}
    return topics | {f"store {spec.name}" for spec in sub.stores}


def _shown(members: Collection[str]) -> str:
    return ", ".join(sorted(members, reverse=True))
