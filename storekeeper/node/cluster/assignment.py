"""Which nodes hold which store partition: rendezvous hashing over the nodes' names.

Every node computes the same answer from the same list of names, without talking to anyone. Adding or removing a node
moves only the partitions that it gains or had, as far as racks allow. Of the nodes that hold a partition one is active,
and is asked first. These roles are spread evenly over the nodes, as far as standbys allow: a role moves without rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import xxhash

from storekeeper.errors import InvalidArgumentError
from storekeeper.protocol.replica_states import ReplicaRole


def holders(
    nodes: Iterable[str], store: str, partition: int, replicas: int, racks: Mapping[str, str] | None = None
) -> list[str]:
    """The nodes that hold a store partition, the active one first, then its standbys in the order of preference.

    There are 1 + `replicas`, or as many as there are nodes. No two of them are in one rack while there is a node in
    another; `racks` is the rack by node, and a node without one is in a rack of its own.

    Raises:
        InvalidArgumentError: if there is no node.
    """
    ranked = sorted(set(nodes), key=lambda node: (_weight(node, store, partition), node), reverse=True)
    if not ranked:
        raise InvalidArgumentError("there is no node to hold anything: name at least one")
    if not racks:
        return ranked[: 1 + replicas]
    return _over_racks(ranked, racks)[: 1 + replicas]


def _over_racks(ranked: Sequence[str], racks: Mapping[str, str]) -> list[str]:
    """The best node of each rack first, then the others."""
    first: list[str] = []
    rest: list[str] = []
    seen: set[str] = set()
    for node in ranked:
        rack = racks.get(node)
        if rack and rack in seen:
            rest.append(node)
        else:
            first.append(node)
        if rack:
            seen.add(rack)
    return [*first, *rest]


def _weight(node: str, store: str, partition: int) -> int:
    return xxhash.xxh64_intdigest(f"{node}\0{store}\0{partition}".encode())


def evenly_led(choices: Sequence[Sequence[str]], nodes: int) -> list[str]:
    """One of the choices of each partition, so that no node is chosen more often than it has to be. `choices` are the
    nodes that hold each partition, the preferred one first.
    """
    led: dict[str, set[int]] = {node: set() for held in choices for node in held}

    def is_led(partition: int, most: int, seen: set[str]) -> bool:
        """Finds a node for a partition, and other nodes for those that it has to give up for it."""
        open_to_it = [node for node in choices[partition] if node not in seen]
        for node in open_to_it:
            if len(led[node]) < most:
                led[node].add(partition)
                return True
        for node in open_to_it:
            seen.add(node)
            for other in sorted(led[node]):
                if is_led(other, most, seen):
                    led[node].remove(other)
                    led[node].add(partition)
                    return True
        return False

    left, most = list(range(len(choices))), max(1, len(choices) // nodes)
    while left:
        left = [partition for partition in left if not is_led(partition, most, set())]
        most += 1
    by_partition = {partition: node for node, partitions in led.items() for partition in partitions}
    return [by_partition[partition] for partition in range(len(choices))]


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which node should hold which partitions. Thread-safe.

    Attributes:
        nodes: the nodes' names.
        partitions: number of partitions by store.
        replicas: standbys of each partition, unless `replicas_of` has a number for the store.
        replicas_of: the same by store.
        racks: rack by node.
        everywhere: stores with every partition on every node.
    """

    nodes: Sequence[str]
    partitions: Mapping[str, int]
    replicas: int
    replicas_of: Mapping[str, int] = field(default_factory=dict)
    racks: Mapping[str, str] = field(default_factory=dict)
    everywhere: AbstractSet[str] = frozenset()
    _placed: dict[str, Sequence[Sequence[str]]] = field(default_factory=dict, init=False, compare=False, repr=False)

    def holders(self, store: str, partition: int) -> list[str]:
        """The nodes that hold a store partition: those of the function of this name, the active one first.

        No node if the store has no such partition.
        """
        placed = self._placed.get(store)
        if placed is None:
            placed = self._placed[store] = self._placement(store)
        return list(placed[partition]) if partition in range(len(placed)) else []

    def _placement(self, store: str) -> Sequence[Sequence[str]]:
        """The holders of each partition of a store."""
        replicas = len(self.nodes) if store in self.everywhere else self.replicas_of.get(store, self.replicas)
        count = self.partitions.get(store, 0)
        found = [holders(self.nodes, store, partition, replicas, self.racks) for partition in range(count)]
        return [
            [active, *(node for node in held if node != active)]
            for held, active in zip(found, evenly_led(found, len(set(self.nodes))), strict=True)
        ]

    def held_by(self, node: str) -> list[tuple[str, int, ReplicaRole]]:
        """(store, partition, role) for all that `node` holds, sorted."""
        held: list[tuple[str, int, ReplicaRole]] = []
        for store, count in sorted(self.partitions.items()):
            for partition in range(count):
                holders = self.holders(store, partition)
                if node in holders:
                    held.append((store, partition, ReplicaRole.ACTIVE if holders[0] == node else ReplicaRole.STANDBY))
        return held

    @property
    def epoch(self) -> str:
        """A short name of this assignment: nodes with the same epoch have the same assignment."""
        parts = [f"{node}@{self.racks.get(node, '')}" for node in sorted(self.nodes)] + [
            f"{store}:{count}:{self.replicas_of.get(store, self.replicas)}:{store in self.everywhere}"
            for store, count in sorted(self.partitions.items())
        ]
        return xxhash.xxh64_hexdigest("\0".join(parts).encode())
